"""What a file says of an operator's inputs, read into one form: shapes, element types, values."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chakra_core.trace import INPUT_SEPARATOR, Trace

__all__ = ["ELEMENT_BYTES", "Operands", "Shape", "operands_of", "parse_inputs", "type_in_name"]

Shape = tuple[int, ...]

ELEMENT_BYTES: dict[str, float] = {
    "fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "fp4": 0.5, "int64": 8, "int32": 4, "int16": 2,
    "int8": 1, "bool": 1, "complex64": 8, "complex128": 16,
}  # fmt: skip
"""Bytes of one element by the name that this package gives its type."""

_TYPES = {
    "float": "fp32", "float32": "fp32", "double": "fp64", "float64": "fp64", "half": "fp16", "float16": "fp16",
    "bfloat16": "bf16", "float8_e4m3fn": "fp8", "float8_e5m2": "fp8", "float8_e4m3fnuz": "fp8",
    "float8_e5m2fnuz": "fp8", "float8_e8m0fnu": "fp8", "float4_e2m1fn_x2": "fp4", "long": "int64", "long int": "int64",
    "int64": "int64", "int": "int32", "int32": "int32", "unsigned int": "int32", "short": "int16", "short int": "int16",
    "int16": "int16", "unsigned short": "int16", "signed char": "int8", "char": "int8", "int8": "int8",
    "unsigned char": "int8", "byte": "int8", "uint8": "int8", "bool": "bool", "complex<float>": "complex64",
    "complexfloat": "complex64", "complex<double>": "complex128", "complexdouble": "complex128",
}  # fmt: skip
_TENSOR = re.compile(r"^(?:Tensor|Parameter)\((.*)\)$")
_NAMED = {
    "bfloat16": "bf16", "bf16": "bf16", "half": "fp16", "f16": "fp16", "fp16": "fp16", "float": "fp32", "f32": "fp32",
    "double": "fp64", "f64": "fp64", "float8_e4m3fn": "fp8", "float8_e5m2": "fp8", "e4m3": "fp8", "e5m2": "fp8",
}  # fmt: skip
_IN_NAME = re.compile(
    r"(?<![a-z0-9])(?:c10::)?(?:bfloat16|bf16|half|fp?16|float8_e4m3fn|float8_e5m2|e4m3|e5m2|float|f32|double|f64)(?![a-z0-9])",
    re.IGNORECASE,
)
_MAX_TEXT = 1 << 16
_MAX_SIZE = 2**48


@dataclass(frozen=True, slots=True)
class Operands:
    """An operator's inputs, by position.

    Attributes:
        shapes: shape of each input; () for scalars, inputs that are absent, and tensors without dimensions.
        types: element type of each input (``fp32``, ``bf16`` …), "" where it is no tensor or not known.
        lists: for inputs that are lists of tensors, their shapes; () for the others.
        values: what is known of each input's value: numbers, truth values, lists of them; None where not known.
    """

    shapes: tuple[Shape, ...]
    types: tuple[str, ...] = ()
    lists: tuple[tuple[Shape, ...], ...] = ()
    values: tuple[Any, ...] = ()

    def shape(self, at: int) -> Shape:
        """Shape of an input; () where there is none."""
        return self.shapes[at] if at < len(self.shapes) else ()

    def kind(self, at: int) -> str:
        """Element type of an input; "" where it is no tensor."""
        return self.types[at] if at < len(self.types) else ""

    def size(self, at: int) -> float:
        """Bytes of one element of an input; those of the first tensor where its type is not known."""
        known = ELEMENT_BYTES.get(self.kind(at))
        return known if known is not None else ELEMENT_BYTES.get(self.main, 0.0)

    def is_tensor(self, at: int) -> bool:
        """Whether an input is a tensor (one without dimensions included)."""
        return bool(self.shape(at)) or self.kind(at) != ""

    def tensors(self) -> list[int]:
        """Positions of the inputs that are tensors."""
        return [at for at in range(len(self.shapes)) if self.is_tensor(at)]

    @property
    def main(self) -> str:
        """Element type of the first tensor with a known one; "" where none is known."""
        return next((kind for kind in self.types if kind in ELEMENT_BYTES), "")

    def bytes(self, at: int) -> float:
        """Bytes of an input, lists included; 0 where it is no tensor."""
        listed = self.lists[at] if at < len(self.lists) else ()
        if listed:
            return sum(math.prod(shape) for shape in listed) * self.size(at)
        return math.prod(self.shape(at)) * self.size(at) if self.is_tensor(at) else 0.0

    def value(self, at: int) -> Any:
        """Value of an input; None where it is not known."""
        return self.values[at] if at < len(self.values) else None

    def numbers(self, at: int, count: int) -> tuple[int, ...] | None:
        """An input that is ``count`` whole numbers (one number stands for all of them); None where it is not that."""
        value = self.value(at)
        if isinstance(value, int) and not isinstance(value, bool):
            value = [value]
        if not isinstance(value, list) or not all(type(entry) is int for entry in value):
            return None
        if len(value) == 1:
            value = value * count
        return tuple(value) if len(value) == count else None

    def flag(self, at: int) -> bool | None:
        """An input that is a truth value; None where it is not known."""
        value = self.value(at)
        return bool(value) if isinstance(value, (bool, int)) else None


def parse_inputs(text: str, values: Sequence[Any] | None = None, otherwise: str = "") -> Operands | None:
    """Read an entry of ``Trace.inputs``; None where it is not three lists.

    Args:
        text: shapes, types and values as the file has them (JSON, or lists as Python prints them), separated.
        values: the values, where they are known from elsewhere.
        otherwise: element type of the inputs where the text names none for any.
    """
    parts = [_list(part) for part in text[:_MAX_TEXT].split(INPUT_SEPARATOR)]
    dims = parts[0] if parts else None
    if dims is None:
        return None
    types = (parts[1] if len(parts) > 1 else None) or []
    said = values if values is not None else (parts[2] if len(parts) > 2 else None) or []
    kinds = tuple(_kind(types[at]) if at < len(types) else "" for at in range(len(dims)))
    if otherwise and not any(kinds):
        kinds = tuple(otherwise if entry else "" for entry in dims)
    return Operands(
        shapes=tuple(_shape(entry) for entry in dims),
        types=kinds,
        lists=tuple(_shapes(entry, listed=_is_list(types, at)) for at, entry in enumerate(dims)),
        values=tuple(_value(said[at]) if at < len(said) else None for at in range(len(dims))),
    )


def operands_of(trace: Trace, row: int, otherwise: str = "") -> Operands | None:
    """The inputs of one node; values that the reader did not keep are looked up in its attributes.

    ``otherwise`` is the element type of the inputs where the file names none.
    """
    code = int(trace.columns.inputs[row])
    if code < 0:
        return None
    text = trace.inputs[code]
    values = None if text.count(INPUT_SEPARATOR) > 1 else _values_in(trace.attributes_of(row))
    return parse_inputs(text, values, otherwise)


def type_in_name(name: str) -> str:
    """Element type that a kernel's name tells (``c10::BFloat16``, ``f16``); "" where it tells none."""
    found = _IN_NAME.search(name[:2048])
    return _NAMED[found[0].lower().removeprefix("c10::")] if found else ""


def _values_in(attributes: dict[str, Any]) -> Sequence[Any] | None:
    found = attributes.get("inputs", attributes.get("inputs.values"))
    if isinstance(found, dict):
        found = found.get("values")
    if isinstance(found, str):
        found = _list(found[:_MAX_TEXT])
    return found if isinstance(found, list) else None


def _list(text: str) -> list[Any] | None:
    """A list from JSON, or from what Python prints of lists of texts and numbers."""
    for candidate in (text, text.replace("'", '"').replace("True", "true").replace("False", "false")):
        try:
            value = json.loads(candidate.replace("None", "null") if candidate is not text else candidate)
        except (ValueError, RecursionError):
            continue
        return value if isinstance(value, list) else None
    return None


def _shape(entry: Any) -> Shape:
    if isinstance(entry, list) and entry and all(type(size) is int and 0 <= size < _MAX_SIZE for size in entry):
        return tuple(entry)
    return ()


def _is_list(types: Sequence[Any], at: int) -> bool:
    kind = str(types[at]) if at < len(types) else ""
    return kind == "TensorList" or kind.startswith("GenericList[Tensor") or kind == ""


def _shapes(entry: Any, *, listed: bool) -> tuple[Shape, ...]:
    if not listed or not isinstance(entry, list):
        return ()
    return tuple(shape for shape in (_shape(inner) for inner in entry if isinstance(inner, list)) if shape)


def _kind(text: Any) -> str:
    """Element type of one input from its text: ``c10::BFloat16``, ``Tensor(float)``, ``GenericList[Tensor(float)]``."""
    name = str(text)[:256]
    if name.startswith("GenericList["):
        name = name.removeprefix("GenericList[").split(",", 1)[0].rstrip("]")
        if not _TENSOR.match(name):
            return ""
    inside = _TENSOR.match(name)
    low = (inside[1] if inside else name).strip().lower().removeprefix("c10::")
    if not inside and low in ("int", "bool", "double") and name[:1].isupper():
        return ""  # a number in the host trace's own naming: Int, Bool, Double
    return _TYPES.get(low, "")


def _value(entry: Any) -> Any:
    """A value as the profiler wrote it: text such as ``[1, 1]``, ``True`` and ``0.5``, or plain JSON."""
    if not isinstance(entry, str):
        return entry
    text = entry.strip()
    if text in ("True", "False"):
        return text == "True"
    if text[:1] == "[":
        return _list(text)
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text or None
