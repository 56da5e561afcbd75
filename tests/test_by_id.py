"""Runs compared node by node: by hand, and a modelled run beside a simulator's log of the same workload."""

from __future__ import annotations

import pytest

from chakra_core.analysis.by_id import as_json, compare_by_id
from chakra_core.opening import open_run
from chakra_core.project.astrasim.collectives import Cluster
from chakra_core.project.astrasim.config import NetworkDimension, SystemConfig
from chakra_core.project.astrasim.replay import simulate_astrasim
from chakra_core.schema import CommOp, TimeKind
from chakra_core.synth import TransformerConfig, transformer_run
from chakra_core.trace import Run
from tests.builder import make_trace, node


def rank(number: int, *nodes) -> Run:
    return make_trace(list(nodes), rank=number)


def test_errors_by_hand():
    reduce_ = {"comm_op": CommOp.ALL_REDUCE, "comm_bytes": 8}
    one = Run(
        (rank(0, node("mm_1", 0, 10), node("mm_2", 10, 20), node("ar", 30, 5, **reduce_)), rank(1, node("mm_1", 0, 9))),
        "a",
    )
    two = Run((rank(0, node("mm_1", 0, 14), node("mm_2", 14, 18), node("ar", 40, 9, **reduce_)),), "b")
    found = compare_by_id(one, two)
    assert found.labels == ("a", "b")
    assert found.share == pytest.approx(3 / 4)
    (only,) = found.ranks
    assert (only.rank, only.first_ns, only.second_ns, only.matched, only.error) == (0, 35, 49, 3, pytest.approx(0.4))
    reduce, product = found.groups
    assert (reduce.name, reduce.collective, reduce.first_ns, reduce.second_ns) == ("ar", True, 5, 9)
    assert (product.name, product.count, product.first_ns, product.second_ns) == ("mm_#", 2, 30, 32)
    assert (product.mean_abs_ns, product.worst_ns, product.worst) == (3.0, 4, (0, 0, 0))
    assert as_json(found)["groups"][0]["worst_error_ns"] == 4


def test_the_same_id_with_another_name_does_not_meet():
    one, two = Run((rank(0, node("a", 0, 1)),), "a"), Run((rank(0, node("b", 0, 1)),), "b")
    found = compare_by_id(one, two)
    assert found.share == 0
    assert found.groups == ()
    assert found.ranks[0].only_first == found.ranks[0].only_second == 1


def test_a_model_beside_a_simulators_log(tmp_path):
    run = transformer_run(TransformerConfig(layers=1, batches=(2,), tp=2))
    dims = (NetworkDimension("Ring", 2, 100.0, 500.0),)
    timed = Run(tuple(t.with_(columns=t.columns.with_(dur_ns=t.columns.dur_ns + 7000)) for t in run.traces), run.label)
    model = simulate_astrasim(timed, Cluster(dims, SystemConfig({}, local_mem_bw=1600)))
    lines = []
    for number, trace in zip(model.ranks, model.traces, strict=True):
        c = trace.columns
        for row in range(len(trace)):
            what = f"sys->id={number}, tick={{}}, node->id={c.id[row]}, node->name={trace.name_of(row)}, node->type={c.kind[row]}"
            end = int(c.start_ns[row] + c.dur_ns[row]) + (100 if c.comm_op[row] != CommOp.NONE else 0)
            lines += [
                (int(c.start_ns[row]), "issue," + what.format(c.start_ns[row])),
                (end, "callback," + what.format(end)),
            ]
    (tmp_path / "run.log").write_text("\n".join(text for _, text in sorted(lines)) + "\n")
    log = open_run([tmp_path / "run.log"])
    assert log.time_kind == TimeKind.SIMULATED
    found = compare_by_id(log, model)
    assert found.share == 1.0
    for group in found.groups:
        assert group.second_ns - group.first_ns == (-100 * group.count if group.collective else 0)
    assert len(found.ranks) == 2
