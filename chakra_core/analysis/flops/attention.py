"""Scaled dot-product attention: two products forward, five backward, over the (query, key) pairs that count.

With B batches, H query heads, head sizes d (queries, keys) and e (values) and P pairs: forward
``2 B H P (d + e)``; backward ``2 B H P (3 d + 2 e)``: the scores once more, and the gradients of values,
probabilities, queries and keys. Source: T. Dao, *FlashAttention-2* (2023), section 4.1: "4 x seqlen^2 x head dimension
x heads, divided by 2 with a causal mask, times 2.5 for the backward pass". Softmax and scaling are not counted there.
With a causal mask and as many queries as keys, P is half of all pairs; else the triangle that the mask leaves: from
the top left in PyTorch's own operators, from the bottom right in flash_attn's (since 2.1). Grouped queries: H is the
number of query heads, keys and values are moved once.
"""

from __future__ import annotations

import math

from chakra_core.analysis.flops.operands import Operands, Shape
from chakra_core.analysis.flops.work import Formula, Work, make
from chakra_core.schema import Category

__all__ = ["FORMULAS", "causal_pairs"]


def causal_pairs(queries: int, keys: int, *, from_end: bool) -> float:
    """Pairs that a causal mask leaves, with the diagonal counted half.

    Args:
        queries: length of the query sequence.
        keys: length of the key sequence.
        from_end: the last query sees all keys (bottom right); else the first sees one (top left).
    """
    if from_end and keys >= queries:
        return queries * keys - queries**2 / 2
    if from_end or keys >= queries:
        return min(queries, keys) ** 2 / 2
    return keys**2 / 2 + (queries - keys) * keys


def _attention(
    *, causal: int, query: int = 0, heads_first: bool = True, backward: bool = False, lengths: int = -1,
    from_end: bool = False, mask_kind: bool = False,
) -> Formula:  # fmt: skip
    """Formula for a signature with query, key, value from ``query`` on and the causal flag at ``causal``.

    ``lengths`` is the position of the cumulated lengths of packed sequences: where there are some, the pairs are not
    told by the shapes. ``mask_kind``: the flag is 0 (none), 1 (top left) or 2 (bottom right).
    """

    def formula(given: Operands) -> Work | None:
        parts = [_layout(given.shape(query + at), heads_first=heads_first) for at in range(3)]
        if lengths >= 0 and given.shape(lengths):
            return None
        if any(part is None for part in parts):
            return None
        (batch, heads, queries, d), (_, _, keys, _), (_, _, _, e) = (part for part in parts if part is not None)
        flag = given.value(causal)
        if not isinstance(flag, (bool, int)):
            return None
        end = flag == 2 if mask_kind else from_end
        pairs = causal_pairs(queries, keys, from_end=end) if flag else float(queries * keys)
        terms = 3 * d + 2 * e if backward else d + e
        out = batch * heads * queries * e * given.size(query)
        read = sum(given.bytes(query + at) for at in range(3))
        moved = 2 * read + 2 * out if backward else read + out
        return make(2 * batch * heads * pairs * terms, moved, Category.ATTENTION, given.kind(query) or given.main)

    return formula


def _layout(shape: Shape, *, heads_first: bool) -> tuple[int, int, int, int] | None:
    """(batch, heads, length, head size) of a query, key or value."""
    if len(shape) == 3 and heads_first:
        return shape[0], 1, shape[1], shape[2]
    if len(shape) < 4:
        return None
    lead = math.prod(shape[:-3])
    return (lead, shape[-3], shape[-2], shape[-1]) if heads_first else (lead, shape[-2], shape[-3], shape[-1])


_FLASH_ATTN = _attention(causal=5, heads_first=False, from_end=True)

FORMULAS: dict[str, Formula] = {
    "aten::scaled_dot_product_attention": _attention(causal=5),
    "aten::_scaled_dot_product_attention_math": _attention(causal=5),
    "aten::_scaled_dot_product_flash_attention": _attention(causal=4),
    "aten::_scaled_dot_product_flash_attention_for_cpu": _attention(causal=4),
    "aten::_scaled_dot_product_efficient_attention": _attention(causal=6),
    "aten::_scaled_dot_product_cudnn_attention": _attention(causal=6),
    "aten::_scaled_dot_product_fused_attention_overrideable": _attention(causal=5),
    "aten::_flash_attention_forward": _attention(causal=8, heads_first=False, lengths=3),
    "aten::_efficient_attention_forward": _attention(causal=9, heads_first=False, lengths=4, mask_kind=True),
    **dict.fromkeys(("flash_attn::_flash_attn_forward", "aiter::mha_fwd"), _FLASH_ATTN),
    "aten::_scaled_dot_product_flash_attention_backward": _attention(causal=11, query=1, backward=True, lengths=6),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _attention(causal=7, query=1, backward=True),
    "aten::_scaled_dot_product_efficient_attention_backward": _attention(causal=11, query=1, backward=True),
    "aten::_scaled_dot_product_cudnn_attention_backward": _attention(causal=14, query=1, backward=True, lengths=9),
    "aten::_flash_attention_backward": _attention(
        causal=11, query=1, heads_first=False, backward=True, lengths=6
    ),
    "aten::_efficient_attention_backward": _attention(
        causal=14, query=1, heads_first=False, backward=True, lengths=6, mask_kind=True
    ),
    "flash_attn::_flash_attn_backward": _attention(
        causal=11, query=1, heads_first=False, backward=True, from_end=True
    ),
}  # fmt: skip
"""By operator."""
