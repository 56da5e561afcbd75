"""Reader of PyTorch execution traces (host ET, schema 1.0.1 to 1.1.1 and newer) and of linked host + device JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.readers._kineto_text import EventText
from chakra_core.readers.base import Packed, Source
from chakra_core.trace import Trace

__all__ = ["READER", "PytorchEtReader", "restore_attributes"]

_NODES = re.compile(rb'"nodes"\s*:\s*\[')
_SCHEMA = re.compile(rb'"schema"\s*:\s*"[\d.]+(?:-chakra[^"]*)?"')


class PytorchEtReader:
    """Operators with inputs, outputs and call structure; times only where device events were linked in."""

    name = "pytorch-et"
    description = "PyTorch execution traces (host ET, 1.0.1 to 1.1.1 and newer), and linked host + device JSON."
    suffixes = (".json", ".et.json")

    def sniff(self, head: bytes, name: str) -> float:
        """Confidence (0..1) that the content is a PyTorch execution trace."""
        del name
        text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
        if text[:1] != b"{" or not _NODES.search(text):
            return 0.0
        return 0.95 if _SCHEMA.search(text) else 0.2

    def read(self, source: Source) -> Sequence[Trace]:
        """Read the file into one Trace.

        Raises:
            CorruptTrace: it holds no list of nodes.
        """
        from chakra_core.readers._et_parse import read_nodes
        from chakra_core.readers._et_trace import assemble

        return (assemble(source, read_nodes(source)),)


class NodeAttributes:
    """Decodes a node from its bytes when asked: its attributes by name, then its other fields."""

    def __init__(self, text: EventText, spans: Any, numbers: Mapping[str, NDArray[np.int64]]) -> None:
        self._text, self._spans, self._numbers = text, spans, numbers

    def numbers(self, name: str) -> NDArray[np.int64] | None:
        """An integer attribute of every row (``rf_id``), 0 where absent."""
        return self._numbers.get(name)

    def pack(self) -> Packed:
        """This source, to be kept."""
        arrays = {"spans": self._spans, **self._text.packed()}
        arrays |= {f"number {name}": array for name, array in self._numbers.items()}
        return Packed(__name__, {}, arrays)

    def __call__(self, row: int) -> dict[str, Any]:
        from chakra_core.readers._kineto_text import loads_tolerant

        data = self._text.read(int(self._spans[row, 0]), int(self._spans[row, 1]))
        try:
            node = loads_tolerant(data)
        except ValueError:
            return {"raw": data[:4096].decode("utf-8", errors="replace")} if data else {}
        if not isinstance(node, dict):
            return {}
        attributes = node.pop("attrs", None)
        found: dict[str, Any] = {key: value for key, value in node.items() if key not in ("id", "name")}
        for entry in attributes if isinstance(attributes, list) else ():
            if isinstance(entry, dict) and "name" in entry:
                key = str(entry["name"])
                found[f"attrs.{key}" if key in found else key] = entry.get("value")
        return found


def restore_attributes(path: Path, params: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> NodeAttributes:
    """A kept source made again."""
    del params
    text = EventText.restored(path, arrays)
    numbers = {name.removeprefix("number "): array for name, array in arrays.items() if name.startswith("number ")}
    return NodeAttributes(text, arrays["spans"], numbers)


READER = PytorchEtReader()
