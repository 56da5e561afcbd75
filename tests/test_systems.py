"""Ready-made systems: shapes, bandwidths per axis, ASTRA-sim's network file, broken entries."""

from __future__ import annotations

import pytest

from chakra_core.errors import AnalysisError, ChakraError
from chakra_core.hardware import load_catalogue
from chakra_core.hardware.systems import get_system, list_systems, read_systems
from chakra_core.project.astrasim.collectives import Cluster
from chakra_core.project.astrasim.config import SystemConfig, network_of, read_network
from chakra_core.schema import CommOp
from dashboard.__main__ import main


def test_every_system_has_a_source_and_devices():
    names = [system.name for system in list_systems()]
    assert len(set(names)) == len(names) >= 10
    assert all(len(system.source) > 20 for system in list_systems())
    assert get_system("dgx h100 x 32").devices == 256
    assert get_system("TPU v4 cube").devices == 64
    with pytest.raises(ChakraError, match="known: DGX H100"):
        get_system("abacus")


def test_levels_take_the_devices_own_figures():
    inner, outer = get_system("DGX H100 x 32").topology().dimensions
    assert (inner.kind, inner.size, inner.bandwidth, inner.latency_ns) == ("switch", 8, 450e9, 3400)
    assert (outer.kind, outer.size, outer.bandwidth, outer.latency_ns) == ("switch", 32, 50e9, 14000)
    with pytest.raises(AnalysisError, match="no scale-up latency for TPU v5e"):
        get_system("TPU v5e pod").topology()
    torus = get_system("TPU v5e pod").topology(assumed_latency_ns=1000.0).dimensions
    assert [(one.kind, one.size, one.bandwidth) for one in torus] == [("ring", 16, 100e9)] * 2


def test_the_network_file_of_a_system(capsys, tmp_path):
    assert main(["hardware", "--network", "DGX H100 x 32"]) == 0
    path = tmp_path / "n.yml"
    path.write_text(capsys.readouterr().out)
    network = read_network(path)
    assert network == network_of(get_system("DGX H100 x 32").topology())
    assert [one.npus for one in network] == [8, 32]
    assert network[0].bytes_per_ns == pytest.approx(450)
    time = Cluster(network, SystemConfig({}, splits=1, endpoint_delay_ns=0)).collective_ns(
        CommOp.ALL_REDUCE, 8 << 20, range(256)
    )
    assert time > 2 * 7 / 8 * (8 << 20) / 450
    assert main(["hardware", "--network", "TPU v5e pod"]) == 1
    assert "latency" in capsys.readouterr().err
    assert main(["hardware", "--network", "TPU v5e pod", "--latency", "1000"]) == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"\\[\\[system\\]\\] tables"),
        ("[[system]", "cannot be read"),
        ('[[system]]\nname = "a"\n', "needs name, device and source"),
        ('[[system]]\nname = "a"\ndevice = "H100 SXM"\nscale_up = [0]\nsource = "b"\n', "needs name"),
        ('[[system]]\nname = "a"\ndevice = "none"\nscale_up = [8]\nsource = "b"\n', "not in the catalogue"),
        ('[[system]]\nname = "a"\ncolour = 1\n', "keys are name"),
    ],
)
def test_broken_files_are_refused(tmp_path, text, said):
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises(ChakraError, match=said.replace("\\\\", "\\")):
        read_systems(path, load_catalogue())
