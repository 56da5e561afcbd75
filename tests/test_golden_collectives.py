"""Beside TraceLens (171dd74): the collectives of one rank that it lists, on every trace there.

What differs, and who is right, is told in ``tests/golden/README.md``.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import pytest

from chakra_core.analysis.collectives import collectives
from chakra_core.opening import open_trace
from chakra_core.schema import CommOp
from tests.test_golden_tracelens import REPORTS, opened

MEBI = 2**20
OPS = {"allreduce": CommOp.ALL_REDUCE, "broadcast": CommOp.BROADCAST}
TYPES = {"BFloat16": "bf16", "Long": "i64"}
WITHOUT = {"dlrm_rank0": 8}
"""Traces whose collectives TraceLens does not list, for want of their arguments, and how many there are."""

UNNAMED = {"mi300_resnet_act_checkpoint": 5}
"""Communication kernels that no record describes: TraceLens leaves them out."""


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", REPORTS)
def test_classes_of_every_report(corpus, golden, name):
    """Count, sizes, types and times of each class; where there is no table there is no collective, but for 2023."""
    path = golden / "tracelens" / "perf_report" / name / "coll_analysis.csv"
    result = collectives(opened(corpus / REPORTS[name]))
    if not path.is_file():
        assert int(result.count.sum()) == WITHOUT.get(name, 0)
        return
    lines = table(path)
    ours = {
        (int(result.op[at]), int(result.bytes[at]), result.dtype[at]): at for at in range(len(result))
    }  # one process group in all of them
    said = {
        (int(OPS[line["Collective name"]]), round(float(line["In msg size (MB)_first"]) * MEBI), TYPES[line["dtype"]]):
        line for line in lines
    }  # fmt: skip
    unnamed = ours.pop((int(CommOp.UNKNOWN), -1, ""), None)
    assert (0 if unnamed is None else int(result.count[unnamed])) == UNNAMED[name]
    assert set(said) == set(ours)
    assert len(said) == len(lines)
    for key, line in said.items():
        at = ours[key]
        assert int(result.count[at]) == int(line["operation_count"])
        assert int(result.members[at]) == float(line["Group size"])
        for theirs, value in (
            ("dur_sum", result.total_ns[at]), ("dur_mean", result.mean_ns[at]), ("dur_min", result.min_ns[at]),
            ("dur_max", result.max_ns[at]),
        ):  # fmt: skip
            assert float(value) == pytest.approx(float(line[theirs]) * 1e3, abs=1 + 1e-6 * float(value)), theirs


def test_collectives_of_eight_ranks(corpus, golden):
    """Each of the 64 kernels has the start and time it has there; what a 2023 trace does not say stays unknown."""
    said: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for line in table(golden / "tracelens" / "nccl" / "dlrm8" / "build_df_long.csv"):
        said[int(line["rank"])].append((int(line["ts"]) * 1000, int(line["dur"]) * 1000))
    seen = 0
    for path in sorted((corpus / "link" / "dlrm_v100_8" / "device").glob("*.json*")):
        trace = open_trace(path)[0]
        result, c = collectives(trace), trace.columns
        ours = sorted(zip(c.start_ns[result.rows].tolist(), c.dur_ns[result.rows].tolist(), strict=True))
        assert ours == sorted(said[trace.meta.rank])
        assert (result.exposed_ns <= result.total_ns).all()
        assert sum(result.missing.values()) == 8  # no process group is named before 2024
        seen += len(ours)
    assert seen == sum(map(len, said.values())) == 64
