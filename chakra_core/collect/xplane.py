"""Record JAX and TensorFlow: their profilers write XPlane, which becomes ``.et`` when the block ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from chakra_core.collect._convert import framework, read_one, write_rank
from chakra_core.errors import ChakraError

__all__ = ["XPlaneRecorder", "record_jax", "record_tensorflow"]

_PROFILES = "plugins/profile/*/*.xplane.pb"


def record_jax(folder: str | Path, *, name: str = "trace", write_et: bool = True) -> XPlaneRecorder:
    """A context manager that records what JAX does inside it, on all devices of this process.

    Args:
        folder: where ``jax.profiler`` writes, and ``NAME.<process>.et`` goes.
        name: first part of the name of the ``.et`` file.
        write_et: write ``.et`` when the block ends.
    """

    def start() -> tuple[Callable[[], None], int, int]:
        jax: Any = framework("jax", "JAX")
        jax.profiler.start_trace(str(folder))
        return jax.profiler.stop_trace, int(jax.process_index()), int(jax.process_count())

    return XPlaneRecorder(Path(folder), name, start, write_et=write_et)


def record_tensorflow(folder: str | Path, *, name: str = "trace", write_et: bool = True) -> XPlaneRecorder:
    """The same for TensorFlow; wrap each step in ``tf.profiler.experimental.Trace("train", step_num=N, _r=1)``.

    Args:
        folder: where the profiler writes, and ``NAME.0.et`` goes.
        name: first part of the name of the ``.et`` file.
        write_et: write ``.et`` when the block ends.
    """

    def start() -> tuple[Callable[[], None], int, int]:
        tensorflow: Any = framework("tensorflow", "TensorFlow")
        tensorflow.profiler.experimental.start(str(folder))
        return tensorflow.profiler.experimental.stop, 0, 1

    return XPlaneRecorder(Path(folder), name, start, write_et=write_et)


class XPlaneRecorder:
    """What the two return. ``xplane`` and ``et`` are the files, once the block has ended."""

    def __init__(
        self, folder: Path, name: str, start: Callable[[], tuple[Callable[[], None], int, int]], *, write_et: bool
    ) -> None:
        self._folder, self._name, self._start, self._write_et = folder, name, start, write_et
        self._before: set[Path] = set()
        self._stop: Callable[[], None] | None = None
        self._rank, self._world_size = 0, 1
        self.xplane: Path | None = None
        self.et: Path | None = None

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._before = set(self._folder.glob(_PROFILES))
        self._stop, self._rank, self._world_size = self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the profiler; convert what it wrote unless the block failed.

        Raises:
            ChakraError: the profiler wrote nothing.
        """
        if self._stop is not None:
            self._stop()
        if kind is not None:
            return
        written = sorted(set(self._folder.glob(_PROFILES)) - self._before)
        if not written:
            raise ChakraError(f"{self._folder}: the profiler wrote no {_PROFILES}")
        self.xplane = written[-1]
        if self._write_et:
            target = self._folder / f"{self._name}.{self._rank}.et"
            self.et = write_rank(read_one(self.xplane), target, self._rank, self._world_size)
