"""The ASTRA-sim compatible model against the simulator's own results (1 cycle is 1 ns), and its files."""

from __future__ import annotations

import csv
import json

import pytest

from chakra_core import open_run
from chakra_core.errors import AnalysisError, CorruptTrace
from chakra_core.project.astrasim.collectives import Cluster
from chakra_core.project.astrasim.config import (
    NetworkDimension,
    SystemConfig,
    network_yaml,
    read_network,
    read_system,
    system_json,
)
from chakra_core.project.astrasim.replay import simulate_astrasim
from chakra_core.schema import CommOp, NodeKind, TimeKind
from chakra_core.trace import ProcessGroup, Run
from tests.builder import make_trace, node

MB = 1 << 20
OPS = {
    "all_reduce": CommOp.ALL_REDUCE,
    "all_gather": CommOp.ALL_GATHER,
    "reduce_scatter": CommOp.REDUCE_SCATTER,
    "all_to_all": CommOp.ALL_TO_ALL,
}
RING = NetworkDimension("Ring", 4, 50.0, 500.0)
PLAIN = SystemConfig({}, splits=4, active_chunks=1, endpoint_delay_ns=10, local_mem_bw=1600)


def cluster(golden, row) -> Cluster:
    config = golden / "astra_sim" / "config"
    return Cluster(read_network(config / row["net"]), read_system(config / row["system"]), aware=row["mode"] == "Aware")


def rows(golden):
    with (golden / "astra_sim" / "cycles.csv").open() as file:
        return list(csv.DictReader(file))


def test_a_ring_all_reduce_by_hand():
    # chunks of 256 KiB one after the other; messages of 64 KiB: 500 + 65536/53.687 = 1720 ns and 10 of the endpoint;
    # 6 steps of them, the first 3 followed by a reduction of 3 x 65536/1638.4 = 120 ns; 10 more per chunk
    assert Cluster((RING,), PLAIN).collective_ns(CommOp.ALL_REDUCE, MB, range(4)) == 4 * (6 * 1730 + 3 * 120 + 10)


def test_every_collective_takes_what_the_simulator_says(golden):
    known = rows(golden)
    single = [row for row in known if not row["tag"].startswith(("text", "stg"))]
    assert len(single) == len(known) - 5 > 30
    for row in single:
        op = next((op for name, op in OPS.items() if row["tag"].startswith(name)), CommOp.ALL_REDUCE)
        found = cluster(golden, row)
        assert found.collective_ns(op, MB, range(found.npus)) == int(row["max_cycles"]), row["tag"]


def test_generated_workload_on_eight_ranks(golden, corpus):
    row = next(row for row in rows(golden) if row["tag"] == "stg_tp2pp2dp2")
    run = open_run([corpus / "chakra_et" / "derived_stg_dp2_tp2_pp2"])
    bare = Run(tuple(t.with_(columns=t.columns.with_(dur_ns=0 * t.columns.dur_ns)) for t in run.traces), run.label)
    done = simulate_astrasim(bare, cluster(golden, row))
    ends = [int((trace.columns.start_ns + trace.columns.dur_ns).max()) for trace in done.traces]
    assert max(ends) == pytest.approx(int(row["max_cycles"]), rel=0.01)  # 4,322,298 against 4,326,252
    assert min(ends) == pytest.approx(int(row["min_cycles"]), rel=0.01)
    assert done.time_kind == TimeKind.SIMULATED


@pytest.mark.parametrize("name", ["MLP_ModelParallel", "Resnet50_DataParallel"])
def test_text_workloads_to_the_ns(golden, corpus, name):
    row = next(row for row in rows(golden) if row["tag"] == f"text_{name}")
    run = open_run([corpus / "astrasim" / "workloads" / f"{name}.txt"])
    done = simulate_astrasim(run, cluster(golden, row))
    assert len(done.traces) == 4
    ends = {int((trace.columns.start_ns + trace.columns.dur_ns).max()) for trace in done.traces}
    assert ends == {int(row["max_cycles"]) // 2}  # the reference went through each workload twice


def test_a_hybrid_workload_and_a_microbenchmark(golden, corpus):
    times = {row["tag"]: int(row["max_cycles"]) // 2 for row in rows(golden)}
    row = next(row for row in rows(golden) if row["tag"] == "text_DLRM_HybridParallel")
    dlrm = simulate_astrasim(
        open_run([corpus / "astrasim" / "workloads" / "DLRM_HybridParallel.txt"]), cluster(golden, row)
    )
    # the reference leaves the embedding's own 300 us of backward work out of the chain
    assert dlrm.span_ns == times["text_DLRM_HybridParallel"] + 300_000
    micro = simulate_astrasim(
        open_run([corpus / "astrasim" / "workloads" / "microAllReduce.txt"]), cluster(golden, row)
    )
    c = micro.traces[0].columns
    # the reference runs the collectives of a microbenchmark without the compute beside them
    assert c.dur_ns[c.kind == NodeKind.COMM_COLL].tolist() == [times["text_microAllReduce"]] == [43_000]


def test_phases_of_two_dimensions_by_hand():
    two = (NetworkDimension("Ring", 2, 50.0, 100.0), NetworkDimension("Switch", 2, 25.0, 300.0))
    system = SystemConfig({}, splits=1, active_chunks=1, endpoint_delay_ns=0, local_mem_bw=0)
    size = 1 << 20
    half, quarter = size // 2, size // 4
    first = int(100 + half / two[0].bytes_per_ns)
    second = 2 * int(600 + quarter / two[1].bytes_per_ns)  # two steps of halves of what the first left
    assert Cluster(two, system).collective_ns(CommOp.ALL_REDUCE, size, range(4)) == first + second + first
    scatter = first + int(600 + quarter / two[1].bytes_per_ns)
    assert Cluster(two, system).collective_ns(CommOp.REDUCE_SCATTER, size, range(4)) == scatter
    assert Cluster(two, system).collective_ns(CommOp.REDUCE_SCATTER, size, (0, 1)) == first
    assert Cluster(two, system).collective_ns(CommOp.ALL_REDUCE, size, (3,)) == 0
    assert Cluster(two, system).transfer_ns(size, 0, 3) == int(700 + size / two[1].bytes_per_ns)


def test_chunks_pipeline_through_dimensions():
    two = (NetworkDimension("Ring", 2, 1.0, 0.0), NetworkDimension("Ring", 2, 0.5, 0.0))
    size = 4 << 20
    serial = Cluster(two, SystemConfig({}, splits=1, endpoint_delay_ns=0)).collective_ns(
        CommOp.REDUCE_SCATTER, size, range(4)
    )
    piped = Cluster(two, SystemConfig({}, splits=4, endpoint_delay_ns=0)).collective_ns(
        CommOp.REDUCE_SCATTER, size, range(4)
    )
    assert piped == pytest.approx(serial * 5 / 8, rel=1e-3)  # equal halves in both dimensions, four chunks overlap


def test_other_algorithms_follow_their_definition():
    flat = (NetworkDimension("FullyConnected", 8, 100.0, 1000.0),)

    def time(name, op, **more):
        system = SystemConfig({"all-reduce": (name,), "all-gather": (name,)}, splits=1, endpoint_delay_ns=0, **more)
        return Cluster(flat, system).collective_ns(op, 8 * MB, range(8))

    per_mb = MB / flat[0].bytes_per_ns
    assert time("direct", CommOp.ALL_REDUCE) == 2 * int(1000 + per_mb)
    assert time("halvingDoubling", CommOp.ALL_REDUCE) == 2 * sum(int(1000 + part * per_mb) for part in (4, 2, 1))
    assert time("ring", CommOp.ALL_REDUCE) == 14 * int(1000 + per_mb)


def test_files_round_trip_and_nonsense_is_refused(tmp_path):
    network, system = tmp_path / "n.yml", tmp_path / "s.json"
    dims = (RING, NetworkDimension("Switch", 8, 400.0, 936.25))
    network.write_text(network_yaml(dims))
    assert read_network(network) == dims
    chosen = SystemConfig(
        {"all-reduce": ("ring", "direct"), "all-gather": ("ring",), "reduce-scatter": ("ring",), "all-to-all": ("direct",)},
        splits=8, active_chunks=2, endpoint_delay_ns=5, local_mem_bw=3350.0, peak_perf=900.0, roofline=True,
        scheduling="FIFO",
    )  # fmt: skip
    system.write_text(system_json(chosen))
    assert read_system(system) == chosen
    for text in ("", "[1", "topology: [Torus]\nnpus_count: [4]\nbandwidth: [1]\nlatency: [1]", "a: 1",
                 "topology: [Ring, Ring]\nnpus_count: [4]\nbandwidth: [1]\nlatency: [1]",
                 "topology: [Ring]\nnpus_count: [0]\nbandwidth: [.inf]\nlatency: [1]",
                 "!!python/object/apply:os.system ['true']", "{" * 5000):  # fmt: skip
        network.write_text(text)
        with pytest.raises(CorruptTrace, match=r"n\.yml"):
            read_network(network)
    for bad in ("[]", "{", "[" * 5000, json.dumps({"preferred-dataset-splits": 0}), json.dumps({"endpoint-delay": "x"}),
                json.dumps({"all-reduce-implementation": ["magic"]})):  # fmt: skip
        system.write_text(bad)
        with pytest.raises(CorruptTrace, match=r"s\.json"):
            read_system(system)


def test_what_the_simulator_cannot_do_is_refused():
    small = Cluster((NetworkDimension("Ring", 2, 50.0, 500.0),), PLAIN)
    with pytest.raises(AnalysisError, match="no model of broadcast"):
        small.collective_ns(CommOp.BROADCAST, MB, (0, 1))
    with pytest.raises(AnalysisError, match="not in a network of 2"):
        small.collective_ns(CommOp.ALL_REDUCE, MB, (0, 5))
    three = Run(tuple(make_trace([node("a", 0, 1)], rank=rank) for rank in range(3)), "three")
    with pytest.raises(AnalysisError, match="3 ranks do not fit"):
        simulate_astrasim(three, small)


def test_collectives_meet_and_streams_are_forgotten():
    group = ProcessGroup("0", (0, 1), size=2)

    def rank(at: int, compute: int):
        nodes = [
            node("a", 0, compute, "gpu:1"),
            node("b", 0, 50, "gpu:2"),  # on its own stream, yet one compute node runs at a time
            node("r", 0, 1, "gpu:3", comm_op=CommOp.ALL_REDUCE, comm_bytes=4 * MB, comm_group=0),
        ]
        return make_trace(nodes, [(0, 2)], rank=at, groups=(group,))

    done = simulate_astrasim(Run((rank(0, 100), rank(1, 300)), "two"), Cluster((RING,), PLAIN))
    starts = [trace.columns.start_ns.tolist() for trace in done.traces]
    assert starts == [[0, 100, 300], [0, 300, 300]]


@pytest.mark.parametrize(
    ("folder", "network", "expected"),
    [
        ("microbench/all_reduce/4npus_1MB", "Ring_4npus.yml", "all_reduce_4_ring"),
        ("microbench/all_reduce/8npus_1MB", "Ring_8npus.yml", "all_reduce_8_ring"),
        ("microbench/all_gather/4npus_1MB", "Ring_4npus.yml", "all_gather_4_ring"),
        ("microbench/reduce_scatter/4npus_1MB", "Ring_4npus.yml", "reduce_scatter_4_ring"),
    ],
)
def test_files_of_one_collective_take_what_the_simulator_says(golden, corpus, folder, network, expected):
    config = golden / "astra_sim" / "config"
    known = {row["tag"]: int(row["max_cycles"]) for row in rows(golden) if row["mode"] == "Unaware"}
    ring = Cluster(read_network(config / network), read_system(config / "Ring_4chunks.json"))
    assert simulate_astrasim(open_run([corpus / "chakra_et" / folder]), ring).span_ns == known[expected]


def test_a_converted_workload_takes_what_the_simulator_says(golden, corpus):
    row = next(row for row in rows(golden) if row["tag"] == "text_Resnet50_DataParallel")
    run = open_run([corpus / "chakra_et" / "derived_text_resnet50_dp4"])
    done = simulate_astrasim(run, cluster(golden, row))
    assert done.span_ns == int(row["max_cycles"])
