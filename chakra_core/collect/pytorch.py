"""Record PyTorch: host execution trace and Kineto trace of the same steps, on every rank."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from chakra_core.collect._convert import framework, link_pair, write_rank
from chakra_core.errors import ChakraError

__all__ = ["PyTorchRecorder", "Recorded", "record_pytorch"]


@dataclass(frozen=True, slots=True)
class Recorded:
    """The files of one rank; ``et`` is None where none was asked for."""

    rank: int
    host: Path
    kineto: Path
    et: Path | None


def record_pytorch(
    folder: str | Path, *, name: str = "trace", wait: int = 0, warmup: int = 0, active: int = 0,
    record_shapes: bool = True, with_flops: bool = True, with_stack: bool = False, write_et: bool = True,
) -> PyTorchRecorder:  # fmt: skip
    """A context manager that records what happens inside it on this rank.

    Args:
        folder: where the files go; the same on every rank. Made if need be.
        name: first part of the files' names: ``host/NAME.<rank>.json``, ``kineto/NAME.<rank>.json``, ``NAME.<rank>.et``.
        wait: steps to let pass before the profiler is started.
        warmup: steps to let pass with the profiler running but not recording.
        active: steps to record; 0 records the whole block (then ``wait`` and ``warmup`` must be 0).
        record_shapes: record the shapes of operator inputs.
        with_flops: record FLOPs of operators for which PyTorch has a formula.
        with_stack: record Python call stacks (slow).
        write_et: link the two traces and write ``.et`` when the block ends.

    Raises:
        ValueError: a number of steps is negative, or ``wait`` or ``warmup`` is given without ``active``.
    """
    if min(wait, warmup, active) < 0 or (not active and (wait or warmup)):
        raise ValueError("wait, warmup and active must not be negative; wait and warmup need active > 0")
    options = {"record_shapes": record_shapes, "with_flops": with_flops, "with_stack": with_stack}
    return PyTorchRecorder(Path(folder), name, (wait, warmup, active), options, write_et=write_et)


class PyTorchRecorder:
    """What ``record_pytorch`` returns. Call ``step()`` at the end of every step; ``recorded`` are the files."""

    def __init__(
        self, folder: Path, name: str, steps: tuple[int, int, int], options: dict[str, bool], *, write_et: bool
    ) -> None:
        self._folder, self._name, self._schedule, self._options, self._write_et = folder, name, steps, options, write_et
        self._observer: Any = None
        self._profiler: Any = None
        self._exported = False
        self._files: Recorded | None = None
        self._world_size = 1
        self._recorded: Recorded | None = None

    @property
    def recorded(self) -> Recorded:
        """The files of this rank.

        Raises:
            ChakraError: the block has not ended yet, or it failed.
        """
        if self._recorded is None:
            raise ChakraError(f"{self._folder}: nothing is recorded before the block has ended")
        return self._recorded

    def __enter__(self) -> Self:
        torch: Any = framework("torch", "PyTorch")
        rank, self._world_size = _rank_of(torch)
        host, kineto = (self._folder / part / f"{self._name}.{rank}.json" for part in ("host", "kineto"))
        et = self._folder / f"{self._name}.{rank}.et" if self._write_et else None
        for path in (host, kineto):
            path.parent.mkdir(parents=True, exist_ok=True)
        self._files = Recorded(rank, host, kineto, et)
        profiler = torch.profiler
        self._observer = profiler.ExecutionTraceObserver()
        self._observer.register_callback(str(host))
        wait, warmup, active = self._schedule
        self._profiler = profiler.profile(
            activities=sorted(profiler.supported_activities(), key=lambda activity: activity.name),
            schedule=profiler.schedule(wait=wait, warmup=warmup, active=active, repeat=1) if active else None,
            on_trace_ready=self._export,
            execution_trace_observer=self._observer,
            **self._options,
        )
        self._profiler.__enter__()
        return self

    def step(self) -> None:
        """Say that a step has ended."""
        self._profiler.step()

    def _export(self, profiler: Any) -> None:
        if self._files is not None and not self._exported:
            profiler.export_chrome_trace(str(self._files.kineto))
            self._exported = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Finish the files; link and write ``.et`` unless the block failed.

        Raises:
            ChakraError: the block ended before the steps to record had passed.
        """
        self._profiler.__exit__(kind, error, traceback)
        self._observer.unregister_callback()
        files = self._files
        if kind is not None or files is None:
            return
        if not self._exported:
            wait, warmup, active = self._schedule
            raise ChakraError(
                f"{files.kineto}: nothing was recorded: the block ended before step {wait + warmup + 1}; "
                f"call step() after each of at least {wait + warmup + active} steps"
            )
        if files.et is not None:
            write_rank(link_pair(files.host, files.kineto), files.et, files.rank, self._world_size)
        self._recorded = files


def _rank_of(torch: Any) -> tuple[int, int]:
    """Rank and number of ranks: of the process group, else what launchers put into the environment, else 0 of 1."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return int(torch.distributed.get_rank()), int(torch.distributed.get_world_size())
    rank, size = os.environ.get("RANK", "0"), os.environ.get("WORLD_SIZE", "1")
    if not (rank.isdecimal() and size.isdecimal() and int(rank) < int(size)):
        raise ChakraError(f"RANK={rank!r} and WORLD_SIZE={size!r} in the environment are no rank and number of ranks")
    return int(rank), int(size)
