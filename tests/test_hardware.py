"""The catalogue: schema, sources, names found in traces."""

import pytest

from chakra_core.errors import ChakraError
from chakra_core.hardware import get_device, list_devices, list_hosts, load_catalogue, lookup
from chakra_core.hardware.catalogue import HARDWARE_VARIABLE
from chakra_core.opening import open_run
from chakra_core.project.projection import source_device

NAMES = {
    "NVIDIA H100 80GB HBM3": "H100 SXM",
    "NVIDIA H100 PCIe": "H100 PCIe",
    "NVIDIA H100 NVL": "H100 NVL",
    "Nvidia cc9.0 132SM/CU 93GiB": "H100 NVL",
    "Intel(R) Data Center GPU Max 1550": "Max 1550",
    "NVIDIA H200": "H200 SXM",
    "NVIDIA B200": "B200 SXM",
    "NVIDIA GB200": "GB200 NVL72",
    "AMD Instinct MI300X VF": "MI300X",
    "AMD Instinct MI300X": "MI300X",
    "AMD Instinct MI210": "MI210",
    "Tesla V100-SXM2-32GB": "V100 SXM2 32GB",
    "Tesla V100-SXM2-16GB": "V100 SXM2 16GB",
    "NVIDIA A100-SXM4-40GB": "A100 SXM 40GB",
    "NVIDIA A100-PG509-200": "A100 SXM 40GB",
    "NVIDIA A100-SXM4-80GB": "A100 SXM 80GB",
    "NVIDIA GeForce RTX 2080 Ti": "RTX 2080 Ti",
    "TPU v6 Lite": "TPU v6e",
    "TPU v5 lite": "TPU v5e",
    "h100 sxm": "H100 SXM",
    "AMD cc9.4 304SM/CU 192GiB": "MI300X",
    "AMD cc9.4 304SM/CU 256GiB": "MI325X",
    "AMD gfx942-class (304 CUs, 191 GiB)": "MI300X",
    "Nvidia cc9.0 132SM/CU 79GiB": "H100 SXM",
    "Nvidia cc9.0 132SM/CU 140GiB": "H200 SXM",
    "Nvidia cc8.0 108SM/CU 39GiB": "A100 SXM 40GB",
}

MINIMAL = """
[[device]]
name = "Mine"
vendor = "Us"
patterns = ['mine']
peak_flops = { bf16 = 1e12 }
memory_bandwidth = 1e11
memory_bytes = 1_000_000_000
domain_size = 4
[device.sources]
peak_flops = "our sheet § table 1"
memory_bandwidth = "our sheet § table 1"
memory_bytes = "our sheet § table 1"
domain_size = "our sheet § table 2"
"""


def test_every_number_has_a_source():
    devices = list_devices()
    assert len(devices) >= 18
    assert len({device.name for device in devices}) == len(devices)
    for device in devices:
        numbers = ["peak_flops", "memory_bandwidth", "memory_bytes", "domain_size"]
        optional = [
            "link_bandwidth",
            "link_latency_ns",
            "scale_out_bandwidth",
            "scale_out_latency_ns",
            "host_link_bandwidth",
        ]
        for number in numbers + [key for key in optional if getattr(device, key) is not None]:
            document, _, place = device.sources[number].partition(": ")
            assert len(document) > 8, (device.name, number)
            assert place, (device.name, number)


def test_hosts_are_listed_apart():
    hosts = {host.name: host for host in list_hosts()}
    assert {"Grace CPU", "EPYC 9654", "Xeon Platinum 8480+"} <= set(hosts)
    assert hosts["EPYC 9654"].peak_flops["fp64"] == pytest.approx(96 * 16 * 2.4e9)
    assert hosts["EPYC 9654"].memory_bandwidth == pytest.approx(12 * 8 * 4.8e9)
    assert hosts["Xeon Platinum 8480+"].peak_flops["fp64"] == pytest.approx(56 * 32 * 2.0e9)
    assert not {host.name for host in list_hosts()} & {device.name for device in list_devices()}
    assert lookup("AMD EPYC 9654 96-Core Processor") == hosts["EPYC 9654"]


def test_numbers_are_plausible():
    for device in list_devices():
        assert 1e13 <= device.peak("bf16")[0] <= 1e16, device.name
        assert 1e11 <= device.memory_bandwidth <= 2e13, device.name
        assert 1e10 <= device.memory_bytes <= 1e12, device.name
        lower = [device.peak_flops[key] for key in ("fp64", "fp32", "tf32", "bf16", "fp8") if key in device.peak_flops]
        assert lower == sorted(lower), device.name


@pytest.mark.parametrize(("seen", "name"), NAMES.items())
def test_lookup_of_names_in_traces(seen, name):
    found = lookup(seen)
    assert found is not None
    assert found.name == name


def test_lookup_of_unknown_names():
    for name in ("", "ARTEMIS", "AMD gfx942-class (304 CUs, 0 GiB)", "AMD Radeon Graphics", "X", "cpu"):
        assert lookup(name) is None
    with pytest.raises(ChakraError, match=r"not in the catalogue; known: .*H100 SXM"):
        get_device("ARTEMIS")


def test_precision_falls_back_and_says_so():
    assert get_device("V100 SXM2 16GB").peak("bf16") == (125e12, "fp16")
    assert get_device("H100 SXM").peak("bf16") == (989.5e12, "bf16")
    with pytest.raises(KeyError):
        get_device("H100 SXM").peak("bf17")


def test_bandwidth_of_a_group():
    mi300x = get_device("MI300X")
    assert mi300x.group_bandwidth(2) == pytest.approx(64e9)  # one link of seven
    assert mi300x.group_bandwidth(4) == pytest.approx(192e9)
    assert mi300x.group_bandwidth(8) == pytest.approx(448e9)
    assert get_device("H100 SXM").group_bandwidth(2) == pytest.approx(450e9)
    assert get_device("TPU v6e").group_bandwidth(16) == pytest.approx(200e9)  # one of two axes
    assert get_device("TPU v6e").group_bandwidth(256) == pytest.approx(400e9)
    assert get_device("Trainium 2").group_bandwidth(2) is None


def test_a_users_file_adds_and_replaces(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(MINIMAL + MINIMAL.replace('"Mine"', '"MI300X"').replace("'mine'", "'MI300X'"))
    catalogue = load_catalogue([path])
    assert get_device("a mine here", catalogue).name == "Mine"
    assert get_device("MI300X", catalogue).peak_flops == {"bf16": 1e12}
    assert get_device("MI300X").peak_flops["bf16"] == 1307.4e12


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("memory_bandwidth = 1e11\n", ""), "memory_bandwidth is missing"),
        (('memory_bandwidth = "our sheet § table 1"\n', ""), r"no source for \['memory_bandwidth'\]"),
        (("= 1e11", "= -1"), "must be a positive number"),
        (("bf16 = 1e12", "bf17 = 1e12"), "known precision"),
        (("our sheet § table 2", "our sheet"), "document § place"),
        (("'mine'", "'('"), "not a regular expression"),
        (("vendor", "colour = 1\nvendor"), r"unknown keys \['colour'\]"),
        (("[[device]]", "[[device]"), "cannot be read"),
    ],
)
def test_broken_files_are_refused(tmp_path, change, said):
    path = tmp_path / "broken.toml"
    path.write_text(MINIMAL.replace(*change))
    with pytest.raises(ChakraError, match=said):
        load_catalogue([path])


WANTED = (
    "V100 SXM2 16GB", "V100 SXM2 32GB", "A100 SXM 40GB", "A100 SXM 80GB", "H100 SXM", "H100 PCIe", "H100 NVL", "H200 SXM",
    "B200 SXM", "GB200 NVL72", "L40S", "MI210", "MI250X (one GCD)", "MI300X", "MI325X", "MI355X", "Gaudi 2", "Gaudi 3",
    "Max 1550", "TPU v4", "TPU v5e", "TPU v5p", "TPU v6e", "TPU v7", "Trainium 2", "Grace CPU", "EPYC 9654",
    "Xeon Platinum 8480+",
)  # fmt: skip


def test_the_devices_that_people_ask_for_are_there():
    assert set(WANTED) <= {device.name for device in load_catalogue()}


def test_peaks_of_the_max_1550_are_operations_times_cores_times_clock():
    device = get_device("Max 1550")
    for precision, operations in (("fp64", 256), ("fp32", 256), ("tf32", 2048), ("bf16", 4096), ("int8", 8192)):
        assert device.peak_flops[precision] == pytest.approx(operations * 128 * 1.6e9)


SEEN = {
    "kineto/cross_hw/gaunernst_bert-small-uncased__1016001.h100.json.gz": "H100 SXM",
    "kineto/cross_hw/gaunernst_bert-small-uncased__1016001.mi300x.json.gz": "MI300X",
    "kineto/compare_a100_v100/control_a100_rank3of8.json.gz": "A100 SXM 40GB",
    "kineto/multirank_v100_resnet18_2": "V100 SXM2 16GB",
    "link/dlrm_v100_8/device": "V100 SXM2 32GB",
    "kineto/b200_vllm_eager_rank0of8.json.gz": "B200 SXM",
    "kineto/mi210_gpu_only.json.gz": "MI210",
}


@pytest.mark.parametrize(("path", "name"), SEEN.items())
def test_hardware_of_real_traces_is_found(corpus, path, name):
    assert source_device(open_run([corpus / path])).name == name


def test_files_named_in_the_environment_count_everywhere(tmp_path, monkeypatch):
    path = tmp_path / "mine.toml"
    path.write_text(MINIMAL)
    monkeypatch.setenv(HARDWARE_VARIABLE, str(path))
    assert get_device("Mine").vendor == "Us"
    assert "Mine" in {device.name for device in list_devices()}
    monkeypatch.setenv(HARDWARE_VARIABLE, str(tmp_path / "none.toml"))
    with pytest.raises(ChakraError, match=r"none\.toml: cannot be read"):
        list_devices()
