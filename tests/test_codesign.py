"""The Co-design page in process: references of projections, choices of the address, jobs, figures."""

from __future__ import annotations

import threading

import pytest

from chakra_core.analysis.by_id import compare_by_id
from chakra_core.errors import AnalysisError, ChakraError
from chakra_core.hardware import get_device
from chakra_core.project.retime import Knobs
from chakra_core.project.sweep import Outcome, Swing, outcome_of
from chakra_core.schema import CommOp
from chakra_core.trace import ProcessGroup, Run
from dashboard.figures.codesign import contour_figure, pareto_figure, sweep_figure, tornado_figure
from dashboard.jobs import Jobs, Stopped
from dashboard.library import LoadedRun
from dashboard.pages._codesign_beside import _tables
from dashboard.pages._codesign_view import controls, factor_of, slider_of
from dashboard.pages.codesign import _choice, _chosen_knobs, _results
from dashboard.projections import Projection, knobs_from
from tests.builder import make_trace, node


def loaded(hardware: str = "NVIDIA H100 80GB HBM3", length: int = 1000, ref: str = "samples/a&b=c") -> LoadedRun:
    return LoadedRun(ref, Run((make_trace([node("gemm", 0, length)]),), "a run", hardware))


def finished(jobs: Jobs, key: object):
    for _ in range(500):
        if (status := jobs.status(key)).state != "running":
            return status
        threading.Event().wait(0.01)
    raise AssertionError("the job did not end")


@pytest.mark.parametrize(
    "knobs",
    [
        Knobs(),
        Knobs(compute=2.0, latency=0.0, overlap=False, algorithm="tree", domain=16),
        Knobs(data_parallel=1 / 8),
        Knobs(precision="fp8", mapping=(("a=b & c", "inside"), ("dp", "across"))),
    ],
)
def test_a_reference_round_trips(knobs):
    one = Projection("samples/a&b=c?d of=e", "H200 SXM", knobs, "H100 SXM")
    assert Projection.of(one.ref) == one
    nested = Projection(one.ref, "MI300X", Knobs())
    assert Projection.of(nested.ref).base == one.ref


def test_what_is_no_projection_is_refused():
    deep = Projection("samples/x", "H200 SXM", Knobs()).ref
    for _ in range(5):
        deep = Projection(deep, "H200 SXM", Knobs()).ref
    for ref in ("samples/x", "projection?hardware=H100", deep):
        with pytest.raises(ChakraError, match="not a projection"):
            Projection.of(ref)
    with pytest.raises(AnalysisError, match="above 0"):
        knobs_from({"compute": "-1"})
    with pytest.raises(AnalysisError, match="projection"):
        knobs_from({"link": "fast"})
    with pytest.raises(ChakraError, match="not in the catalogue"):
        Projection("x", "abacus", Knobs()).apply(loaded().run)


def test_sliders_are_powers_of_two():
    assert [factor_of(position) for position in (-3, -1, 0, 0.5, 3, 99, None)] == [
        0.125, 0.5, 1.0, pytest.approx(1.414214), 8.0, 8.0, 1.0
    ]  # fmt: skip
    for position in (-3.0, -0.75, 0.0, 0.25, 2.5, 3.0):
        assert slider_of(factor_of(position)) == position
    assert slider_of(1000.0) == 3.0


def test_choices_of_the_address():
    runs = [loaded(ref=Projection("samples/x", "MI300X", Knobs()).ref), loaded()]
    assert _choice({}, runs)[0] == 1  # the run that is no projection
    at, found = _choice({"show": "0", "hardware": "MI300X", "compute": "4", "source": "H100 SXM"}, runs)
    assert (at, found.hardware, found.knobs, found.source) == (0, "MI300X", Knobs(compute=4.0), "H100 SXM")
    at, found = _choice({"show": "9" * 5000, "hardware": "<b>", "compute": "x", "source": "y"}, runs)
    assert (at, found.hardware, found.knobs, found.source) == (1, "H200 SXM", Knobs(), "")
    assert _choice({}, [loaded("NVIDIA H200")])[1].hardware == "MI300X"


def test_the_result_states_its_error_against_a_measurement():
    source, there = loaded(), loaded("AMD Instinct MI300X", 900, "samples/there")
    text = str(_results([source, there], 0, Projection(source.ref, "MI300X", Knobs()), "light"))
    factor = get_device("H100 SXM").peak("bf16")[0] / get_device("MI300X").peak("bf16")[0]
    assert f"{round(1000 * factor) / 900 - 1:+.1%}" in text
    alone = str(_results([source], 0, Projection(source.ref, "MI300X", Knobs()), "light"))
    assert "No run measured on MI300X is open" in alone


def test_a_run_that_cannot_be_projected_says_why():
    text = str(_results([loaded("abacus")], 0, Projection("x", "MI300X", Knobs()), "light"))
    assert "not in the catalogue" in text
    assert "recorded on" in text


def test_jobs_report_stop_and_fail():
    jobs = Jobs()
    jobs.start("sum", lambda report: (report(1, 2), 5)[1])
    assert finished(jobs, "sum").result == 5
    jobs.start("bad", lambda _: 1 / 0)
    assert "ZeroDivisionError" in finished(jobs, "bad").message
    begun, go = threading.Event(), threading.Event()

    def long(report):
        begun.set()
        go.wait(5)
        report(1, 2)
        raise AssertionError("was not stopped")

    jobs.start("long", long)
    assert begun.wait(5)
    jobs.stop("long")
    go.set()
    assert finished(jobs, "long").state == "failed"
    assert str(Stopped("stopped")) == finished(jobs, "long").message
    assert jobs.status("never").state == "absent"


def outcome(total: int, **knobs: float) -> Outcome:
    parts = {"compute": total, "exposed_comm": 0, "exposed_memory": 0, "idle": 0}
    return Outcome("H100 SXM", Knobs(**knobs), total, parts, total)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_figures_show_the_numbers(theme):
    now = outcome_of(loaded().run)
    swing = Swing("compute", outcome(2_000_000), outcome(500_000))
    figure = tornado_figure([swing], outcome(1_000_000), theme)
    assert [list(bar.x) for bar in figure.data] == [[1.0], [-0.5]]
    assert [bar.base for bar in figure.data] == [1.0, 1.0]
    figure = sweep_figure([outcome(4000, link=1.0), outcome(2000, link=2.0)], "link", theme)
    assert list(figure.data[0].x) == [1.0, 2.0]
    assert list(figure.data[0].y) == [4.0, 2.0]
    grid = [outcome(a * 10 + b, link=float(a), compute=float(b)) for a in (1, 2) for b in (1, 2)]
    figure = contour_figure(grid, ("link", "compute"), theme)
    assert figure.data[0].z.tolist() == [[11, 21], [12, 22]]
    figure = pareto_figure(["a", "b"], [1.0, 2.0], [4000, 9000], [0], "cost", theme)
    assert list(figure.data[0].x) == [1.0]
    assert now.total_ns == 1000


def test_what_the_error_was_elsewhere_is_said_where_no_measurement_is_open():
    text = str(_results([loaded()], 0, Projection("x", "MI300X", Knobs()), "light"))
    assert "of 3 models measured on both" in text


def test_groups_can_be_laid_over_the_network():
    group = ProcessGroup("1", (0, 1), "tp")
    run = Run((make_trace([node("gemm", 0, 5)], groups=[group]),), "a run", "H100 SXM")
    chosen = {"at": 0, "hardware": "MI300X", "source": "", "knobs": Knobs(mapping=(("tp", "inside"),))}
    text = str(controls("codesign", [get_device("MI300X")], [run], chosen))
    assert "value=['tp']" in text
    assert "value=[]" in text
    bare = str(controls("codesign", [get_device("MI300X")], [loaded().run], {**chosen, "knobs": Knobs()}))
    assert "no process groups" in bare


def test_controls_become_knobs_and_nonsense_the_usual():
    values = {"run": "0", "hardware": "x", "source": "", "algorithm": "tree", "domain": 4, "inside": ["tp"], "across": None,
              "precision": "fp8"}  # fmt: skip
    knobs = _chosen_knobs(values, [1.0, *[0.0] * 6], overlap=False)
    assert knobs == Knobs(
        compute=2.0, overlap=False, algorithm="tree", domain=4, precision="fp8", mapping=(("tp", "inside"),)
    )
    wrong = {**values, "algorithm": None, "domain": "", "inside": [], "precision": None}
    assert _chosen_knobs(wrong, [None] * 7, overlap=True) == Knobs()


def test_beside_another_run_each_rank_and_operator_has_its_error():
    names = [node("mm_1", 0, 10), node("ar", 10, 5, comm_op=CommOp.ALL_REDUCE, comm_bytes=8)]
    slower = [node("mm_1", 0, 12), node("ar", 12, 5, comm_op=CommOp.ALL_REDUCE, comm_bytes=8)]
    one, two = (Run((make_trace(nodes, rank=0),), label) for nodes, label in ((names, "model"), (slower, "log")))
    text = str(_tables(compare_by_id(one, two), 1, "light"))
    assert "100.0% of the nodes met" in text
    assert f"'error': {17 / 15 - 1}" in text
    assert "'kind': 'collective'" in text
    assert f"'error': {12 / 10 - 1}" in text
    other = Run((make_trace([node("else", 0, 12)], rank=0),), "else")
    assert "not the same workload" in str(_tables(compare_by_id(one, other), 1, "light"))
