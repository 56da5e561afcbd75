"""Recording: real PyTorch captures on one and two ranks, end to end; JAX and TensorFlow by stand-ins of their profilers."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
import pytest

from chakra_core.collect import record_jax, record_pytorch, record_tensorflow
from chakra_core.errors import ChakraError
from chakra_core.opening import open_run
from chakra_core.schema import CommOp, TimeKind
from dashboard.library import Library
from dashboard.page import Context
from dashboard.pages import PAGES
from dashboard.state import ViewState
from tests.captures import capture
from tests.test_pages import whole
from tests.test_readers_xplane import gpu_profile


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("captures")
    capture(folder, 1)
    capture(folder, 2)
    return folder


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_real_capture_gives_pairs_and_et_per_rank(captures: Path, ranks: int):
    folder = captures / f"ranks{ranks}"
    for part, suffix in (("host", ".json"), ("kineto", ".json"), ("", ".et")):
        assert [path.name for path in sorted((folder / part).glob(f"*{suffix}"))] == [
            f"trace.{rank}{suffix}" for rank in range(ranks)
        ]
    run = open_run(sorted(folder.glob("*.et")))
    assert run.ranks == tuple(range(ranks))
    assert {trace.meta.world_size for trace in run.traces} == {ranks}
    for rank, trace in enumerate(run.traces):
        (kineto,) = open_run([folder / "kineto" / f"trace.{rank}.json"]).traces
        assert trace.meta.time_kind == TimeKind.MEASURED
        addmm = trace.attributes_of([trace.name_of(row) for row in range(len(trace))].index("aten::addmm"))
        assert addmm["rf_id"] == addmm["Record function id"]  # one from either file
        names = [trace.name_of(row) for row in range(len(trace))]
        assert names.count("aten::addmm") == 2 * 2  # two linear layers, two recorded steps
        for name in ("aten::addmm", "Optimizer.step#SGD.step"):
            mine, theirs = names.index(name), [kineto.name_of(row) for row in range(len(kineto))].index(name)
            assert trace.columns.dur_ns[mine] == kineto.columns.dur_ns[theirs]
        reduced = np.isin(trace.columns.comm_op, (CommOp.ALL_REDUCE,)).sum()
        assert (reduced > 0) == (ranks > 1)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_real_capture_reaches_the_overview(captures: Path, ranks: int):
    library = Library({"captures": captures})
    ref = "captures/ranks1/trace.0.et" if ranks == 1 else "captures/ranks2"
    context = Context(library, (library.get(ref),), ViewState("overview", (ref,)))
    text = whole(next(page for page in PAGES if page.slug == "overview"), context)
    assert "aten::addmm" in text
    assert "measured" in text


def test_a_block_that_ends_too_early_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch", stand_in_for_torch())
    early = pytest.raises(ChakraError, match=r"ended before step 3; call step\(\) after each of at least 4 steps")
    with early, record_pytorch(tmp_path, wait=1, warmup=1, active=2) as recorder:
        recorder.step()
    with pytest.raises(ChakraError, match="before the block has ended"):
        _ = recorder.recorded
    with pytest.raises(ZeroDivisionError), record_pytorch(tmp_path, active=1):  # the block's own error comes through
        raise ZeroDivisionError
    with pytest.raises(ValueError, match="wait and warmup need active"):
        record_pytorch(tmp_path, wait=1)
    monkeypatch.setenv("RANK", "4")
    with pytest.raises(ChakraError, match="RANK='4'"), record_pytorch(tmp_path):
        pass


def stand_in_for_torch() -> Any:
    """As much of PyTorch as a recorder touches; its profiler never has anything to export."""

    class Profile:
        def __init__(self, **options: Any) -> None:
            self.options = options

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *error: object) -> None:
            pass

        def step(self) -> None:
            pass

    observer = SimpleNamespace(register_callback=lambda _: None, unregister_callback=lambda: None)
    profiler = SimpleNamespace(
        ExecutionTraceObserver=lambda: observer, profile=Profile, schedule=lambda **steps: steps,
        supported_activities=lambda: [SimpleNamespace(name="CPU")],
    )  # fmt: skip
    return SimpleNamespace(profiler=profiler, distributed=SimpleNamespace(is_available=lambda: False))


def writes_profile(folder: Path) -> Any:
    def write(*_: object) -> None:
        path = folder / "plugins/profile/2026_01_01_00_00_00/host.xplane.pb"
        path.parent.mkdir(parents=True)
        path.write_bytes(gpu_profile().SerializeToString())

    return write


def test_jax_and_tensorflow_profiles_become_et(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    jax = SimpleNamespace(
        profiler=SimpleNamespace(start_trace=lambda _: None, stop_trace=writes_profile(tmp_path / "jax")),
        process_index=lambda: 1, process_count=lambda: 4,
    )  # fmt: skip
    tool = SimpleNamespace(start=lambda _: None, stop=writes_profile(tmp_path / "tf"))
    monkeypatch.setitem(sys.modules, "jax", jax)
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(profiler=SimpleNamespace(experimental=tool)))
    with record_jax(tmp_path / "jax") as one:
        pass
    with record_tensorflow(tmp_path / "tf") as two:
        pass
    assert one.et == tmp_path / "jax/trace.1.et"
    assert two.et == tmp_path / "tf/trace.0.et"
    (trace,) = open_run([one.et]).traces
    assert (trace.meta.rank, trace.meta.world_size) == (1, 4)
    assert [trace.name_of(row) for row in trace.device_rows.tolist()] == ["fusion_a", "fusion_b"]


def test_a_profiler_that_writes_nothing_or_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    silent = SimpleNamespace(start_trace=lambda _: None, stop_trace=lambda: None)
    jax = SimpleNamespace(profiler=silent, process_index=lambda: 0, process_count=lambda: 1)
    monkeypatch.setitem(sys.modules, "jax", jax)
    with pytest.raises(ChakraError, match="wrote no"), record_jax(tmp_path):
        pass
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(ChakraError, match="needs the package 'tensorflow'"), record_tensorflow(tmp_path):
        pass
