"""The generated transformer: totals against closed formulae, structure, groups."""

import networkx as nx
import numpy as np
import pytest

from chakra_core.schema import Category, CommOp
from chakra_core.synth import TransformerConfig, transformer_run, transformer_trace

CONFIGS = [
    TransformerConfig(),
    TransformerConfig(layers=1, hidden=64, heads=4, sequence=16, vocabulary=100, batches=(3,), tp=1),
    TransformerConfig(layers=3, hidden=256, heads=8, sequence=128, vocabulary=512, batches=(2, 1), tp=2),
    TransformerConfig(
        layers=2, hidden=96, heads=6, vocabulary=99, batches=(1, 1, 2), tp=3, feed_forward=300, micro_batches=3
    ),
]


def total(trace, column, *categories):
    mask = np.isin(trace.columns.category, categories)
    return int(getattr(trace.columns, column)[mask].sum())


@pytest.mark.parametrize("config", CONFIGS)
def test_matrix_flops_equal_the_closed_formula(config):
    for replica in range(config.dp):
        ranks = [transformer_trace(config, replica * config.tp + shard) for shard in range(config.tp)]
        assert sum(total(rank, "flops", Category.GEMM, Category.ATTENTION) for rank in ranks) == config.matrix_flops(
            replica
        )


def test_flops_of_a_known_model():
    """GPT-3 175B, one sequence: 6 N T + 12 T L s h with N = 12 L h^2 + h V, by hand."""
    config = TransformerConfig(layers=96, hidden=12288, heads=96, sequence=2048, vocabulary=51200, batches=(1,), tp=8)
    assert config.layers * config.layer_weights == 173_946_175_488
    by_hand = 6 * 2048 * (173_946_175_488 + 629_145_600) + 12 * 2048 * 96 * 2048 * 12288
    assert config.matrix_flops(0) == by_hand


@pytest.mark.parametrize("config", CONFIGS)
def test_graph_is_connected_and_acyclic_and_forward_in_rows(config):
    trace = transformer_trace(config, config.world_size - 1)
    assert (trace.edges.sources < trace.edges.targets()).all()
    graph = trace.to_networkx()
    assert nx.is_directed_acyclic_graph(graph)
    assert nx.is_weakly_connected(graph)
    starts = [trace.name_of(trace.row_of(n)) for n, degree in graph.in_degree() if degree == 0]
    assert starts == ["embedding/lookup"]
    ends = {trace.name_of(trace.row_of(n)).rpartition("/")[2] for n, degree in graph.out_degree() if degree == 0}
    assert ends <= {"optimizer", "grad_weight"}


def test_collectives_are_what_the_parallelism_needs():
    config = TransformerConfig(layers=3, batches=(4, 2), micro_batches=2)
    trace = transformer_trace(config, 5)
    c = trace.columns
    assert (c.comm_op[c.comm_op != CommOp.NONE] == CommOp.ALL_REDUCE).all()
    tensor, data = trace.meta.groups
    assert tensor.ranks == (4, 5, 6, 7)
    assert data.ranks == (1, 5)
    # embedding, two a layer, loss forward; head, two a layer backward; each micro-batch
    assert int((c.comm_group == 0).sum()) == 2 * (1 + 2 * 3 + 1 + 1 + 2 * 3)
    sizes = {trace.name_of(row): int(c.comm_bytes[row]) for row in np.flatnonzero(c.comm_group == 1)}
    layer = (4 * 1024**2 + 2 * 1024 * 4096) // 4 * 2
    assert sizes == {
        "head/gradients/all_reduce": 1024 * 32000 // 4 * 2,
        **{f"layer_{at}/gradients/all_reduce": layer for at in range(3)},
        "embedding/gradients/all_reduce": 1024 * 32000 // 4 * 2,
    }
    activation = trace.names.index("layer_0/mlp/all_reduce")
    assert set(c.comm_bytes[c.name == activation].tolist()) == {2 * 1024 * 1024 * 2}
    for group in (0, 1):
        numbers = c.comm_seq[c.comm_group == group]
        assert numbers.tolist() == list(range(len(numbers)))


def test_gradients_are_reduced_once_after_the_last_micro_batch():
    config = TransformerConfig(layers=2, micro_batches=3)
    trace = transformer_trace(config, 0)
    row = int(np.flatnonzero(trace.columns.name == trace.names.index("layer_1/gradients/all_reduce"))[0])
    sources, _ = trace.edges.of(row)
    waits = sorted(trace.name_of(int(source)) for source in sources)
    four = ["attention/output", "attention/qkv", "mlp/down", "mlp/up"]
    assert waits == sorted(f"layer_1/{part}/grad_weight" for part in four for _ in range(3))


def test_one_rank_alone_does_not_communicate():
    trace = transformer_trace(TransformerConfig(batches=(1,), tp=1), 0)
    assert (trace.columns.comm_op == CommOp.NONE).all()


def test_run_has_all_ranks_and_groups():
    run = transformer_run(TransformerConfig(batches=(4, 4), tp=4), "demo")
    assert run.ranks == tuple(range(8))
    assert [group.ranks for group in run.groups] == [
        (0, 1, 2, 3), (4, 5, 6, 7), (0, 4), (1, 5), (2, 6), (3, 7),
    ]  # fmt: skip
    assert len({len(trace) for trace in run.traces}) == 1


@pytest.mark.parametrize("change", [{"hidden": 1022}, {"heads": 6}, {"vocabulary": 9}, {"layers": 0}, {"batches": ()}])
def test_sizes_that_do_not_fit_are_refused(change):
    with pytest.raises(ValueError, match="must"):
        TransformerConfig(**change)
    with pytest.raises(ValueError, match="rank 8 of a run of 8"):
        transformer_trace(TransformerConfig(), 8)
