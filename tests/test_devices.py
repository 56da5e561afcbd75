"""A run on every device, and cost beside benefit, by hand."""

from __future__ import annotations

import pytest

from chakra_core.errors import AnalysisError
from chakra_core.hardware import get_device
from chakra_core.project.devices import OnDevice, benefits, on_every_device
from chakra_core.project.retime import Knobs
from chakra_core.project.sweep import Outcome
from chakra_core.schema import CommOp
from chakra_core.trace import Run
from tests.builder import make_trace, node

H100 = get_device("H100 SXM")
DEVICES = [get_device(name) for name in ("H100 SXM", "A100 SXM 80GB", "Trainium 2")]


def on(name: str, total: int) -> OnDevice:
    return OnDevice(name, "V", Outcome(name, None, total, {"compute": total}, total))


def test_every_device_and_its_note():
    reduce = node("ar", 312_000, 5, comm_op=CommOp.ALL_REDUCE, comm_bytes=8)
    run = Run((make_trace([node("gemm", 0, 312_000), reduce]),), "run", "H100 SXM")
    told = []
    rows = on_every_device(run, DEVICES, source=H100, progress=lambda done, of: told.append((done, of)))
    assert [row.device for row in rows] == ["H100 SXM", "A100 SXM 80GB", "Trainium 2"]
    assert rows[0].outcome.total_ns == 312_005
    assert rows[1].outcome.parts_ns["compute"] == 989_500  # 312 us x 989.5 / 312
    assert [row.note for row in rows] == ["", "", "link unknown: communication as recorded"]
    assert told == [(1, 3), (2, 3), (3, 3)]
    (idle,) = on_every_device(Run((make_trace([node("op", 0, 1, lane="thread 1")]),), "host"), DEVICES[:1], source=H100)
    assert idle.outcome is None
    assert "no device work" in idle.note
    faster = on_every_device(run, DEVICES[:1], source=H100, knobs=Knobs(compute=2.0))
    assert faster[0].outcome.parts_ns["compute"] == 156_000


def test_cost_beside_benefit():
    rows = [on("a", 8_000_000_000), on("b", 2_000_000_000), on("c", 4_000_000_000), OnDevice("d", "V", None, "why")]
    found = benefits(rows, {"b": 10.0, "c": 20.0, "a": 5.0})
    assert [(one.device, one.cost, one.total_ns, one.speedup, one.cost_ratio, one.cost_time, one.on_front) for one in found] == [
        ("a", 5.0, 8_000_000_000, 1.0, 1.0, 40.0, True),
        ("b", 10.0, 2_000_000_000, 4.0, 2.0, 20.0, True),
        ("c", 20.0, 4_000_000_000, 2.0, 4.0, 80.0, False),  # dearer and slower than b
    ]  # fmt: skip
    assert benefits(rows, {}) == []
    with pytest.raises(AnalysisError, match="'d'"):
        benefits(rows, {"d": 1.0})
    for cost in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(AnalysisError, match="above 0"):
            benefits(rows, {"a": cost})
