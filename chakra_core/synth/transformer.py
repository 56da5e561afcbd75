"""A training step of a decoder-only transformer under data and tensor parallelism, as dependency graphs.

Every rank holds 1/tp of each matrix: query-key-value and up-projection split by column, output and down-projection by
row, embedding and head by vocabulary, so that each of attention and feed-forward sums its output over the tensor group
once forward and its input gradient once backward (M. Shoeybi et al., *Megatron-LM*, 2019, section 3). Gradients are
averaged over the data group layer by layer, as soon as the layer's last micro-batch has made them.

Work of a matrix product m x k x n is 2 m k n FLOPs on e (m k + k n + m n) bytes, e bytes an element. With T tokens,
L layers, hidden size h, feed-forward size f, sequence s and vocabulary V one step costs, over the tensor group,

    6 T (L (4 h^2 + 2 h f) + h V)  +  12 T L s h      FLOPs in matrix products and attention:

2 forward, 4 backward for each weight and token, and 4 + 8 for the two attention products (full, not causal, no
recomputation; D. Narayanan et al., *Efficient Large-Scale Language Model Training*, 2021, appendix). Normalisation,
activation, residual and loss count 5, 8, 1 and 5 FLOPs an element forward and the double backward; AdamW 14 a
parameter on 28 bytes (gradient and weight of e bytes, three 4-byte states read and written). Biases are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from chakra_core.schema import Category, CommOp, TimeKind
from chakra_core.synth.builder import TraceBuilder
from chakra_core.trace import ProcessGroup, Run, Trace, TraceMeta

__all__ = ["TransformerConfig", "transformer_run", "transformer_trace"]

_TP, _DP = 0, 1
_LANES = ("compute", "tensor-parallel communication", "data-parallel communication")


@dataclass(frozen=True, slots=True)
class TransformerConfig:
    """The model, the batch and how both are spread.

    Attributes:
        layers: number of layers, L.
        hidden: model width, h; must divide by tp.
        heads: attention heads; must divide by tp.
        sequence: tokens of one sequence, s.
        vocabulary: V; must divide by tp.
        batches: sequences of one micro-batch, one number for each data-parallel replica (its length is dp).
        tp: ranks that share one replica.
        feed_forward: f; 4 h by default.
        micro_batches: forward and backward passes before one optimizer step.
        element_bytes: e, bytes of a weight, activation and gradient.
    """

    layers: int = 4
    hidden: int = 1024
    heads: int = 16
    sequence: int = 1024
    vocabulary: int = 32_000
    batches: tuple[int, ...] = (4, 4)
    tp: int = 4
    feed_forward: int = 0
    micro_batches: int = 1
    element_bytes: int = 2

    def __post_init__(self) -> None:
        sizes = (self.layers, self.hidden, self.heads, self.sequence, self.vocabulary, self.tp, self.micro_batches)
        if min(sizes) < 1 or not self.batches or min(self.batches) < 1 or self.element_bytes < 1:
            raise ValueError("every size of a transformer must be at least 1")
        for name in ("hidden", "heads", "vocabulary", "inner"):
            if getattr(self, name) % self.tp:
                raise ValueError(f"{name} ({getattr(self, name)}) must divide by the tensor-parallel size {self.tp}")

    @property
    def inner(self) -> int:
        """Feed-forward size f."""
        return self.feed_forward or 4 * self.hidden

    @property
    def dp(self) -> int:
        """Replicas."""
        return len(self.batches)

    @property
    def world_size(self) -> int:
        """Ranks."""
        return self.dp * self.tp

    @property
    def layer_weights(self) -> int:
        """Matrix weights of one layer, over the tensor group: 4 h^2 + 2 h f."""
        return 4 * self.hidden**2 + 2 * self.hidden * self.inner

    def matrix_flops(self, replica: int) -> int:
        """FLOPs in matrix products and attention of one step of one replica, by the formula of this module."""
        tokens = self.batches[replica] * self.sequence * self.micro_batches
        weights = self.layers * self.layer_weights + self.hidden * self.vocabulary
        return 6 * tokens * weights + 12 * tokens * self.layers * self.sequence * self.hidden

    def groups(self) -> tuple[ProcessGroup, ...]:
        """Tensor groups, then data groups; rank = replica x tp + shard. Names count from 1 (0 is all ranks)."""
        ranks = [tuple(range(at * self.tp, (at + 1) * self.tp)) for at in range(self.dp)]
        across = [tuple(range(shard, self.world_size, self.tp)) for shard in range(self.tp)]
        kinds = ["tensor parallel"] * self.dp + ["data parallel"] * self.tp
        return tuple(
            ProcessGroup(str(at + 1), members, kind, len(members))
            for at, (members, kind) in enumerate(zip(ranks + across, kinds, strict=True))
        )

    def groups_of(self, rank: int) -> tuple[ProcessGroup, ProcessGroup]:
        """The tensor group and the data group of a rank."""
        groups = self.groups()
        return groups[rank // self.tp], groups[self.dp + rank % self.tp]


def transformer_run(config: TransformerConfig, label: str = "transformer") -> Run:
    """All ranks of one step, without times; give them durations and replay them to see a timeline."""
    traces = tuple(transformer_trace(config, rank) for rank in range(config.world_size))
    return Run(traces, label, groups=config.groups())


def transformer_trace(config: TransformerConfig, rank: int) -> Trace:
    """One rank of one step: forward and backward of every micro-batch, gradient reduction, optimizer.

    Raises:
        ValueError: there is no such rank.
    """
    if not 0 <= rank < config.world_size:
        raise ValueError(f"rank {rank} of a run of {config.world_size}")
    step = _Step(config, config.batches[rank // config.tp] * config.sequence)
    for micro_batch in range(config.micro_batches):
        step.forward()
        step.backward(last=micro_batch == config.micro_batches - 1)
    step.optimize()
    meta = TraceMeta(
        format="synthetic",
        schema="transformer",
        rank=rank,
        world_size=config.world_size,
        time_kind=TimeKind.SIMULATED,
        groups=config.groups_of(rank),
        events=len(step.build.rows),
    )
    return step.build.build(meta)


class _Step:
    """Writes the nodes of one rank; ``at`` is the node whose output the next one reads."""

    def __init__(self, config: TransformerConfig, tokens: int) -> None:
        self.c, self.tokens = config, tokens
        self.build = TraceBuilder(_LANES)
        self.at: tuple[int, ...] = ()
        self.gradients: dict[str, list[int]] = {}
        self.reduced: dict[str, tuple[int, ...]] = {}
        self.seq = [0, 0]

    # --- single nodes -------------------------------------------------------------------------------------------

    def matmul(self, name: str, m: int, k: int, n: int, after: tuple[int, ...]) -> int:
        moved = self.c.element_bytes * (m * k + k * n + m * n)
        return self.build.add(name, Category.GEMM, after, flops=2 * m * k * n, moved=moved)

    def pointwise(self, name: str, category: Category, elements: int, work: int, tensors: int) -> None:
        """Reads and writes ``tensors`` tensors of ``elements`` elements and does ``work`` FLOPs on each element."""
        moved = tensors * elements * self.c.element_bytes
        self.at = (self.build.add(name, category, self.at, flops=work * elements, moved=moved),)

    def attention(self, name: str, products: int, tensors: int) -> None:
        """``products`` attention products of 2 T s h/tp FLOPs in one fused kernel on ``tensors`` tensors."""
        width = self.c.hidden // self.c.tp
        flops = products * 2 * self.tokens * self.c.sequence * width
        moved = tensors * self.tokens * width * self.c.element_bytes
        self.at = (self.build.add(name, Category.ATTENTION, self.at, flops=flops, moved=moved),)

    def all_reduce(self, name: str, size: int, group: int, after: tuple[int, ...]) -> tuple[int, ...]:
        """An all-reduce over the tensor or data group; nothing to do where the group has one rank."""
        if (self.c.tp, self.c.dp)[group] == 1:
            return after
        seq = self.seq[group]
        self.seq[group] += 1
        op = CommOp.ALL_REDUCE
        return (self.build.communicate(name, op, after, size=size, group=group, lane=1 + group, seq=seq),)

    def linear(self, name: str, k: int, n: int) -> None:
        self.at = (self.matmul(name, self.tokens, k, n, self.at),)

    def linear_backward(self, owner: str, name: str, k: int, n: int, *, reduce: str = "") -> None:
        """Input gradient, its sum over the tensor group where wanted, and, meanwhile, the weight gradient."""
        incoming = self.at
        self.at = (self.matmul(f"{name}/grad_input", self.tokens, n, k, incoming),)
        if reduce:
            self.at = self.all_reduce(reduce, self.activation_bytes, _TP, self.at)
        weight = self.matmul(f"{name}/grad_weight", k, self.tokens, n, incoming)
        self.gradients.setdefault(owner, []).append(weight)

    @property
    def activation_bytes(self) -> int:
        return self.tokens * self.c.hidden * self.c.element_bytes

    # --- passes -------------------------------------------------------------------------------------------------

    def forward(self) -> None:
        c, elements = self.c, self.tokens * self.c.hidden
        shard, inner = c.hidden // c.tp, c.inner // c.tp
        self.pointwise("embedding/lookup", Category.EMBEDDING, elements, 0, 2)
        self.at = self.all_reduce("embedding/all_reduce", self.activation_bytes, _TP, self.at)
        for layer in range(c.layers):
            name = f"layer_{layer}/attention"
            self.pointwise(f"{name}/norm", Category.NORMALISATION, elements, 5, 2)
            self.linear(f"{name}/qkv", c.hidden, 3 * shard)
            self.attention(f"{name}/core", 2, 4)
            self.linear(f"{name}/output", shard, c.hidden)
            self.at = self.all_reduce(f"{name}/all_reduce", self.activation_bytes, _TP, self.at)
            self.pointwise(f"{name}/residual", Category.ELEMENTWISE, elements, 1, 3)
            name = f"layer_{layer}/mlp"
            self.pointwise(f"{name}/norm", Category.NORMALISATION, elements, 5, 2)
            self.linear(f"{name}/up", c.hidden, inner)
            self.pointwise(f"{name}/activation", Category.ELEMENTWISE, self.tokens * inner, 8, 2)
            self.linear(f"{name}/down", inner, c.hidden)
            self.at = self.all_reduce(f"{name}/all_reduce", self.activation_bytes, _TP, self.at)
            self.pointwise(f"{name}/residual", Category.ELEMENTWISE, elements, 1, 3)
        self.pointwise("head/norm", Category.NORMALISATION, elements, 5, 2)
        self.linear("head/logits", c.hidden, c.vocabulary // c.tp)
        self.pointwise("head/loss", Category.REDUCTION, self.tokens * c.vocabulary // c.tp, 5, 1)
        self.at = self.all_reduce("head/loss/all_reduce", 2 * 4 * self.tokens, _TP, self.at)

    def backward(self, *, last: bool) -> None:
        c, elements = self.c, self.tokens * self.c.hidden
        shard, inner = c.hidden // c.tp, c.inner // c.tp
        self.pointwise("head/loss/grad", Category.ELEMENTWISE, self.tokens * c.vocabulary // c.tp, 10, 2)
        self.linear_backward("head", "head/logits", c.hidden, c.vocabulary // c.tp, reduce="head/grad_all_reduce")
        self.pointwise("head/norm/grad", Category.NORMALISATION, elements, 10, 3)
        self.reduce_gradients("head", c.hidden * c.vocabulary, last=last)
        for layer in reversed(range(c.layers)):
            owner, name = f"layer_{layer}", f"layer_{layer}/mlp"
            self.pointwise(f"{name}/residual/grad", Category.ELEMENTWISE, elements, 2, 3)
            self.linear_backward(owner, f"{name}/down", inner, c.hidden)
            self.pointwise(f"{name}/activation/grad", Category.ELEMENTWISE, self.tokens * inner, 16, 3)
            self.linear_backward(owner, f"{name}/up", c.hidden, inner, reduce=f"{name}/grad_all_reduce")
            self.pointwise(f"{name}/norm/grad", Category.NORMALISATION, elements, 10, 3)
            name = f"layer_{layer}/attention"
            self.pointwise(f"{name}/residual/grad", Category.ELEMENTWISE, elements, 2, 3)
            self.linear_backward(owner, f"{name}/output", shard, c.hidden)
            self.attention(f"{name}/core/grad", 4, 8)
            self.linear_backward(owner, f"{name}/qkv", c.hidden, 3 * shard, reduce=f"{name}/grad_all_reduce")
            self.pointwise(f"{name}/norm/grad", Category.NORMALISATION, elements, 10, 3)
            self.reduce_gradients(owner, c.layer_weights, last=last)
        self.pointwise("embedding/grad", Category.EMBEDDING, elements, 1, 3)
        self.gradients.setdefault("embedding", []).extend(self.at)
        self.reduce_gradients("embedding", c.hidden * c.vocabulary, last=last)

    def reduce_gradients(self, owner: str, weights: int, *, last: bool) -> None:
        """Average a part's gradients over the data group, once its last micro-batch has made them."""
        if last:
            made = tuple(self.gradients[owner])
            size = weights // self.c.tp * self.c.element_bytes
            self.reduced[owner] = self.all_reduce(f"{owner}/gradients/all_reduce", size, _DP, made)

    def optimize(self) -> None:
        """AdamW part by part, after the whole backward pass and the part's reduced gradients."""
        done = self.at
        for owner, reduced in self.reduced.items():
            weights = self.c.layer_weights if owner.startswith("layer_") else self.c.hidden * self.c.vocabulary
            mine = weights // self.c.tp
            states = 2 * self.c.element_bytes + 24
            name = f"{owner}/optimizer"
            self.build.add(name, Category.ELEMENTWISE, (*done, *reduced), flops=14 * mine, moved=states * mine)
