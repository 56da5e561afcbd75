"""Shape signatures of Chakra nodes: what a PyTorch trace says of an operator's inputs, in one normal form."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chakra_core.trace import INPUT_SEPARATOR

__all__ = ["SEPARATOR", "input_texts", "signature", "signatures"]

SEPARATOR = INPUT_SEPARATOR
"""Between the shapes and the types in the text that a node's inputs are interned as."""

_SHORT = {
    "float": "f32", "double": "f64", "c10::half": "f16", "half": "f16", "c10::bfloat16": "bf16", "bfloat16": "bf16",
    "long int": "i64", "int": "i32", "bool": "bool", "unsigned char": "u8", "signed char": "i8", "short": "i16",
    "c10::float8_e4m3fn": "f8e4m3", "c10::float8_e5m2": "f8e5m2",
}  # fmt: skip
_TENSOR = re.compile(r"Tensor\(([^)]*)\)")
_DIMS = re.compile(r"\[([\d, ]*)\]")
_MAX = 400


def signature(shapes: str, types: str) -> str:
    """``[2048,768]x[768]:bf16`` from a node's ``inputs.shapes`` and ``inputs.types``; empty where no tensor is named.

    Scalars and lists have no shape there; the element type is that of the first tensor.
    """
    dims = [match[1].replace(" ", "") for match in _DIMS.finditer(shapes) if match[1].strip()]
    if not dims:
        return ""
    tensor = _TENSOR.search(types)
    kind = _SHORT.get(tensor[1].strip().lower(), tensor[1].strip()) if tensor else "?"
    return ("x".join(f"[{entry}]" for entry in dims) + f":{kind}")[:_MAX]


def signatures(inputs: NDArray[np.int64], texts: Sequence[str]) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """The distinct signatures, and which one each node has (-1: none); each interned text is parsed once."""
    made: dict[str, int] = {}
    by_text = np.full(len(texts) + 1, -1, np.int64)
    for number in np.unique(inputs[inputs >= 0]).tolist():
        shapes, separator, types = texts[number].partition(SEPARATOR)
        text = signature(shapes, types) if separator else ""
        if text:
            by_text[number] = made.setdefault(text, len(made))
    return tuple(made), by_text[inputs]


def input_texts(inputs: NDArray[np.int64], texts: Sequence[str]) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """The distinct texts about inputs, and which one each node has (-1: none)."""
    used = [number for number in np.unique(inputs[inputs >= 0]).tolist() if SEPARATOR in texts[number]]
    place = np.full(len(texts) + 1, -1, np.int64)
    place[used] = np.arange(len(used))
    return tuple(texts[number] for number in used), place[inputs]
