"""Process groups laid over the levels of a network: the text, what a name stands for, times by hand."""

from __future__ import annotations

import pytest

from chakra_core.errors import AnalysisError
from chakra_core.hardware import get_device
from chakra_core.project.mapping import group_labels, mapping_text, parse_mapping
from chakra_core.project.projection import project_run
from chakra_core.project.retime import Knobs, retime
from chakra_core.project.simulate import simulate_run
from chakra_core.schema import CommOp
from chakra_core.synth import TransformerConfig, transformer_run
from chakra_core.trace import ProcessGroup, Run
from tests.builder import make_trace, node

H100, MI300X = get_device("H100 SXM"), get_device("MI300X")
INNER = 1_000_000 + 2 * 3_400
OUTER = 9_000_000 + 2 * 14_000
"""An all-reduce of 450 MB among two: at 450 GB/s in 2 steps of 3.4 us, at 50 GB/s in 2 steps of 14 us."""


def reduction(group: int, start: int = 0):
    return node("ar", start, OUTER, lane="gpu:20", comm_op=CommOp.ALL_REDUCE, comm_bytes=450_000_000, comm_group=group)


def lengths(*groups: ProcessGroup, **knobs):
    """What reductions in these groups take; as measured they took what two domains need."""
    nodes = [reduction(at, at * 20_000_000) for at in range(len(groups))]
    run = Run((make_trace(nodes, rank=0, groups=groups),), "run")
    return project_run(run, H100, source=H100, knobs=Knobs(**knobs)).traces[0].columns.dur_ns.tolist()


def test_a_group_of_two_domains_is_brought_into_one():
    apart = ProcessGroup("3", (0, 8), "mesh_tp")
    assert lengths(apart) == [OUTER]
    for name in ("tp", "3", "mesh_tp", "MESH_TP"):
        assert lengths(apart, mapping=((name, "inside"),)) == [INNER]


def test_only_the_named_groups_move_and_the_last_word_counts():
    tp, dp = ProcessGroup("1", (0, 8), "tp"), ProcessGroup("2", (0, 16), "dp")
    assert lengths(tp, dp, mapping=(("tp", "inside"), ("dp", "across"))) == [INNER, OUTER]
    assert lengths(tp, dp, mapping=(("tp", "inside"), ("1", "across"))) == [OUTER, OUTER]


def test_a_group_that_fills_a_domain_is_spread_out():
    run = transformer_run(TransformerConfig(layers=1, batches=(2, 2), tp=2))
    here = simulate_run(run, H100)
    packed, spread = (
        project_run(here, H100, knobs=Knobs(mapping=parse_mapping(text))) for text in ("", "tensor parallel=across")
    )
    assert packed.span_ns == here.span_ns
    trace = here.traces[0]
    c = trace.columns
    tensor = [at for at, group in enumerate(trace.meta.groups) if group.description == "tensor parallel"]
    chosen = (c.comm_op == CommOp.ALL_REDUCE) & (c.comm_group == tensor[0])
    factor = retime(trace, H100, H100, Knobs(mapping=(("tensor parallel", "across"),)), 4).factor
    size = int(c.comm_bytes[chosen][0])
    assert factor[chosen][0] == pytest.approx((size / 50 + 28_000) / (size / 450 + 6_800))
    assert (factor[~chosen & (c.comm_op != CommOp.NONE)] == 1).all()
    assert spread.span_ns > packed.span_ns
    assert "tensor parallel=across" in " ".join(spread.assumptions)


def test_a_group_larger_than_a_domain_needs_several():
    wide = ProcessGroup("1", tuple(range(0, 32, 2)), "ep")
    (inside,) = lengths(wide, mapping=(("ep", "inside"),))
    # measured over 4 domains of 8 that each hold 4 members; packed into 2: 30 steps, 2 of them outer instead of 6
    volume = 2 * 15 / 16 * 450_000_000 / 50
    assert inside == round(OUTER * (volume + 28 * 3_400 + 2 * 14_000) / (volume + 24 * 3_400 + 6 * 14_000))


def test_texts_and_labels():
    pairs = (("tp", "inside"), ("a b", "across"))
    assert parse_mapping(mapping_text(pairs)) == pairs
    assert parse_mapping(" ") == ()
    for text in ("tp", "tp=outside", "=inside", "tp=inside,,", ",".join(["a=inside"] * 65)):
        with pytest.raises(ValueError, match="mapping"):
            parse_mapping(text)
    groups = [ProcessGroup("1", (0,), "tp"), ProcessGroup("2", (0,)), ProcessGroup("x=y", (0,))]
    assert group_labels(Run((make_trace([node("a", 0, 1)], groups=groups),), "run")) == ("2", "tp")


def test_names_of_no_group_are_refused():
    with pytest.raises(AnalysisError, match=r"no process group 'pp' in run; its groups: tp"):
        lengths(ProcessGroup("1", (0, 8), "tp"), mapping=(("pp", "inside"),))
    with pytest.raises(ValueError, match="inside or across"):
        Knobs(mapping=(("tp", "elsewhere"),))


def test_precision_chooses_the_peaks():
    trace = make_trace([node("gemm", 0, 1000)])
    for precision in ("bf16", "fp8", "fp64"):
        ratio = H100.peak_flops[precision] / MI300X.peak_flops[precision]
        assert retime(trace, H100, MI300X, Knobs(precision=precision)).factor == pytest.approx([ratio])
    with pytest.raises(ValueError, match="precision must be one of"):
        Knobs(precision="bf17")
