"""What the benchmarks stand on: files that load alike on every path, honest deviations, a picture that is well formed."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from chakra_core.readers.base import Source
from chakra_core.readers.chakra_et import ChakraEtReader
from chakra_core.readers.kineto import KinetoReader
from chakra_core.schema import Category, Domain
from tests.benchmarks.bench_project import measure
from tests.benchmarks.files import write_et, write_kineto
from tests.benchmarks.plot import Line, growth_svg
from tests.benchmarks.results import _project_checks, _projection, deviations


def test_generated_et_is_the_same_on_both_paths(tmp_path: Path):
    write_et(path := tmp_path / "some.et", 500)
    (fast,), (slow,) = (ChakraEtReader(scan_from=size).read(Source(path)) for size in (0, 2**62))
    assert len(fast) == 500
    assert np.array_equal(fast.columns.dur_ns, slow.columns.dur_ns)
    assert np.array_equal(fast.edges.sources, slow.edges.sources)
    assert fast.attributes(77) == slow.attributes(77)


@pytest.mark.parametrize("name", ["some.json", "some.json.gz"])
def test_generated_kineto_has_what_a_training_rank_has(tmp_path: Path, name: str):
    written = write_kineto(tmp_path / name, 20_000)
    trace = KinetoReader().read(Source(tmp_path / name))[0]
    c = trace.columns
    assert trace.meta.events == written >= 20_000
    assert trace.meta.rank == 0
    assert {Category.GEMM, Category.COMMUNICATION, Category.COPY} <= set(map(Category, np.unique(c.category)))
    device = np.flatnonzero(c.domain == Domain.DEVICE)
    assert len(device) > 2_000
    assert (c.parent[device] >= 0).all()
    assert {finding.code for finding in trace.health} <= {"partial-overlap"}


def test_a_straight_line_has_no_deviation_and_a_curve_has():
    rows = [{"nodes": n, "s": 0.2 + 3e-6 * n} for n in (10**5, 10**6, 10**7)]
    assert max(map(abs, deviations(rows, "s"))) < 1e-9
    rows[2]["s"] *= 2
    assert max(map(abs, deviations(rows, "s"))) > 0.15


def test_the_picture_is_well_formed_and_holds_every_point():
    lines = [Line("a < b", [1e5, 1e6], [0.1, 1.1]), Line("c", [1e5, 1e6], [0.2, 2.0])]
    root = ET.fromstring(growth_svg([("time", lines), ("memory", lines)]))  # noqa: S314 - our own text
    assert len(list(root.iter("{http://www.w3.org/2000/svg}circle"))) == 8


def test_projection_is_measured_and_held_against_its_targets():
    found = measure(8, 300)
    assert found["ranks"] == 8
    assert found["points"] == 20
    assert min(found[step] for step in ("floor", "simulate", "replay", "project", "sweep")) > 0
    slow = {**found, "nodes": 3_200_000, "replay": 3.3, "project": 9.9}
    assert [met for *_, met in _project_checks(slow)] == [False, True]
    assert [met for *_, met in _project_checks({**slow, "replay": 3.1, "project": 10.0})] == [True, False]
    assert "| 3.30 | 1.0 |" in _projection(slow)
    assert [met for *_, met in _project_checks({"skipped": "why"})] == [False]
    assert "why" in _projection({"skipped": "why"})
