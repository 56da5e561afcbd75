"""``chakra-dashboard convert`` as a user runs it."""

import json

import pytest

from chakra_core.opening import open_run
from chakra_core.schema import CommOp, NodeKind
from chakra_core.synth import TransformerConfig, transformer_run
from chakra_core.writers.convert import convert
from dashboard.__main__ import main
from tests.builder import make_trace, node


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source")
    convert(transformer_run(TransformerConfig(layers=1, batches=(1, 1), tp=2)), folder / "t", purpose="archive")
    return folder


def run(capsys, *words):
    status = main(["convert", *map(str, words)])
    return status, capsys.readouterr()


def test_files_of_all_ranks_and_a_passed_check(capsys, tmp_path, source):
    status, out = run(capsys, source, "-o", tmp_path / "w", "--check", "--json")
    document = json.loads(out.out)
    assert status == 0
    assert document["check"]["problems"] == []
    assert [path.rsplit("/", 1)[-1] for path in document["files"]] == [f"w.{rank}.et" for rank in document["ranks"]]
    assert document["groups_file"].endswith("w.json")
    assert (document["purpose"], document["format"]) == ("simulator", "et")
    before, after = open_run([source]), open_run([tmp_path])
    assert [len(trace) for trace in before.traces] == [len(trace) for trace in after.traces]


def test_an_archive_that_no_simulator_takes_fails_the_check(capsys, tmp_path):
    trace = make_trace([node("m", 0, 1, kind=NodeKind.METADATA), node("g", 0, 1, comm_op=CommOp.GATHER, comm_bytes=8)])
    from chakra_core.writers.chakra_et import write_et

    write_et(trace, tmp_path / "a.0.et")
    status, out = run(capsys, tmp_path / "a.0.et", "-o", tmp_path / "b", "--for", "archive", "--check", "--json")
    assert status == 1
    assert {one["code"] for one in json.loads(out.out)["check"]["problems"]} == {"metadata-node", "collective-type"}
    status, out = run(capsys, tmp_path / "a.0.et", "-o", tmp_path / "c", "--check", "--json")
    assert status == 0
    assert {one["code"] for one in json.loads(out.out)["changes"]} == {"left-out", "replayed"}


def test_the_format_follows_the_name_and_ranks_can_be_chosen(capsys, tmp_path, source):
    status, out = run(capsys, source, "-o", tmp_path / "w.csv", "--ranks", "1", "--json")
    assert status == 0
    assert json.loads(out.out)["files"] == [str(tmp_path / "w.csv")]
    assert (tmp_path / "w.csv").read_text().splitlines()[1].startswith("1,")


def test_a_range_cuts_and_says_so(capsys, tmp_path, source):
    whole = open_run([source])
    status, out = run(capsys, source, "-o", tmp_path / "w", "--range", f"0:{whole.span_ns // 2}", "--check", "--json")
    document = json.loads(out.out)
    assert status == 0
    assert {"outside"} <= {one["code"] for one in document["changes"]}
    assert all(len(a) < len(b) for a, b in zip(open_run([tmp_path]).traces, whole.traces, strict=True))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--to", "pdf"], "no such format"),
        (["--to", "csv", "--check"], "no format that simulators read"),
        (["--ranks", "99"], "has no rank 99"),
    ],
)
def test_mistakes_are_one_line(capsys, tmp_path, source, words, said):
    status, out = run(capsys, source, "-o", tmp_path / "w", *words)
    assert status == 1
    assert said in out.err
    assert "Traceback" not in out.err
