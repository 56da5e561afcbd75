"""Inputs for ASTRA-sim: a folder that its rules accept, the machine in it, the command, the model on what was written."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest

from chakra_core.errors import AnalysisError
from chakra_core.hardware import get_device
from chakra_core.opening import open_run
from chakra_core.project.astrasim.collectives import Cluster
from chakra_core.project.astrasim.config import NetworkDimension, read_network, read_system
from chakra_core.project.astrasim.inputs import cluster_of, write_inputs
from chakra_core.project.astrasim.replay import simulate_astrasim
from chakra_core.project.projection import project_run
from chakra_core.project.retime import Knobs
from chakra_core.project.simulate import simulate_run
from chakra_core.schema import CommOp
from chakra_core.synth import TransformerConfig, transformer_run
from chakra_core.trace import Run
from dashboard.pages._codesign_beside import inputs_archive
from dashboard.projections import Projection
from tests.astra_rules import load, simulate
from tests.builder import make_trace, node

H100 = get_device("H100 SXM")
GIB = 1 << 30


def step(tp: int = 2, dp: int = 2) -> Run:
    return simulate_run(transformer_run(TransformerConfig(layers=1, batches=(2,) * dp, tp=tp)), H100)


def test_a_projection_becomes_a_folder_that_the_simulator_takes(tmp_path: Path):
    projected = project_run(step(), get_device("H200 SXM"), knobs=Knobs(compute=2.0))
    network, system = cluster_of(get_device("H200 SXM"), 4)
    done = write_inputs(projected, tmp_path / "deep" / "inputs", network, system)
    names = {str(path.relative_to(done.folder)) for path in done.files}
    assert names == {
        *(f"workload/run.{rank}.et" for rank in range(4)), "workload/run.json", "network.yml", "system.json",
        "remote_memory.json", "README.md",
    }  # fmt: skip
    assert all(simulate(done.folder / "workload" / "run", 4, done.folder / "workload" / "run.json"))
    assert read_network(done.folder / "network.yml") == network == (NetworkDimension("Switch", 4, 450e9 / GIB, 3400.0),)
    assert read_system(done.folder / "system.json") == system
    assert json.loads((done.folder / "system.json").read_text())["trace-enabled"] == 1
    assert json.loads((done.folder / "remote_memory.json").read_text()) == {"memory-type": "NO_MEMORY_EXPANSION"}
    text = (done.folder / "README.md").read_text()
    assert done.command in text
    for option in ("workload/run", "system.json", "remote_memory.json", "network.yml", "workload/run.json"):
        assert f"={option}" in done.command
    spent = [entry.duration_micros for entry in load(done.folder / "workload" / "run.0.et").values() if entry.type == 4]
    compute = projected.traces[0].columns
    assert sum(spent) == pytest.approx(compute.dur_ns[compute.comm_op == CommOp.NONE].sum() / 1000, abs=len(spent))


def test_our_model_runs_what_was_written(tmp_path: Path):
    run = step()
    network, system = cluster_of(H100, 4)
    write_inputs(run, tmp_path, network, system)
    cluster = Cluster(read_network(tmp_path / "network.yml"), read_system(tmp_path / "system.json"))
    written, direct = simulate_astrasim(open_run([tmp_path / "workload"]), cluster), simulate_astrasim(run, cluster)
    assert len(written.traces) == 4
    assert written.span_ns == pytest.approx(direct.span_ns, rel=0.05)  # whole microseconds, one order of communication


def test_one_rank_stands_for_all_and_other_counts_are_refused(tmp_path: Path):
    lone = Run((make_trace([node("gemm", 0, 5000)]),), "lone")
    network, system = cluster_of(H100, 8)
    done = write_inputs(lone, tmp_path, network, system)
    assert done.conversion.ranks == tuple(range(8))
    assert "stands for all 8 NPUs" in (tmp_path / "README.md").read_text()
    assert all(simulate(tmp_path / "workload" / "run", 8, None))
    with pytest.raises(AnalysisError, match="4 ranks, the network 8 NPUs"):
        write_inputs(step(), tmp_path, network, system)


def test_clusters_of_the_catalogue():
    two, _ = cluster_of(H100, 32)
    assert two == (
        NetworkDimension("Switch", 8, 450e9 / GIB, 3400.0),
        NetworkDimension("Switch", 4, 50e9 / GIB, 14000.0),
    )
    narrow, system = cluster_of(H100, 4, domain=1, algorithm="halving-doubling")
    assert narrow == (NetworkDimension("Switch", 4, 50e9 / GIB, 14000.0),)
    assert system.algorithm("all-reduce", 0) == "halvingDoubling"
    assert (system.local_mem_bw, system.peak_perf) == (3350.0, 989.5)
    full, _ = cluster_of(get_device("MI300X"), 8)
    assert full[0].topology == "FullyConnected"
    assert full[0].bandwidth == pytest.approx(448e9 / GIB)
    torus, system = cluster_of(get_device("TPU v5e"), 256)
    assert [(one.topology, one.npus) for one in torus] == [("Ring", 16)] * 2
    assert len(system.algorithms["all-to-all"]) == 2
    trainium = get_device("Trainium 2")
    for device, ranks, said in ((H100, 1, "at least two"), (H100, 12, "do not fill"), (trainium, 4, "no link")):
        with pytest.raises(AnalysisError, match=said):
            cluster_of(device, ranks)


def test_the_archive_of_the_page_holds_the_folder():
    projection = Projection("samples/x", "H200 SXM", Knobs())
    content = inputs_archive(projection.apply(step()), projection)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = archive.namelist()
    assert "astra-sim-inputs/README.md" in names
    assert sum(name.endswith(".et") for name in names) == 4
