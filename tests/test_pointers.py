"""What to look at first: the numbers in its sentences, worked out by hand."""

from __future__ import annotations

from chakra_core.schema import Severity
from chakra_core.trace import HealthFinding, Run
from dashboard.pointers import pointers
from tests.builder import make_trace, node
from tests.runs import host_only, rank_trace


def by_title(run: Run) -> dict[str, str]:
    return {pointer.title: pointer.text for pointer in pointers(run)}


def test_idle_and_its_longest_gap():
    """Busy 0..100 and 400..500 of 500: 300 idle, one gap of 300."""
    run = Run((make_trace([node("a", 0, 100), node("b", 400, 100)]),), "gap")
    found = {pointer.title: pointer for pointer in pointers(run)}
    assert found["Idle devices"].text == (
        "Devices have nothing to do for 60.0 % of their time (300 ns in all). The longest gap, on rank 0, lasts 300 ns."
    )
    assert found["Idle devices"].window == (0, 1400)  # a margin of at least 1 µs on both sides


def test_exposed_communication_and_unequal_ranks():
    """Rank 0: 850 in all, compute 500, all-reduce 650..950 bare after 700: 250. Rank 1 computes 100 more."""
    run = Run((rank_trace(0), rank_trace(1, slow=100)), "two")
    found = by_title(run)
    assert found["Exposed communication"].startswith("26")
    assert found["Ranks do unequal work"] == "Rank 1 computes 600 ns, rank 0 500 ns: 100 ns apart."


def test_the_costliest_operator_of_a_host_trace_by_self_time():
    """Step itself 200, matmul 600, add 200 of 1000."""
    (pointer,) = pointers(Run((host_only(),), "host"))
    assert pointer.title == "Costliest operator"
    assert pointer.text == "matmul itself takes 60.0 % of operator time on the host: 1 call, 600 ns."
    assert (pointer.rank, pointer.row, pointer.page) == (0, 1, "timeline")


def test_errors_of_the_file_come_first():
    trace = make_trace([node("a", 0, 100)])
    finding = HealthFinding("truncated", Severity.ERROR, 1, "The file breaks off.", "Copy it again.")
    run = Run((trace.with_(health=(finding,)),), "cut")
    assert pointers(run)[0].title == "The trace is damaged"
    assert pointers(run)[0].text == "The file breaks off."


def test_an_empty_run_has_nothing_to_point_at():
    assert pointers(Run((make_trace([]),), "empty")) == ()
