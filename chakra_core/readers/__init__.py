"""Readers: one module per format; the registry asks each how sure it is and uses the surest."""

from __future__ import annotations

import importlib
import warnings
from functools import cache
from importlib.metadata import entry_points
from typing import cast

from chakra_core.errors import UnknownFormat
from chakra_core.readers.base import Reader, Source

__all__ = ["ENTRY_POINT_GROUP", "READERS", "guess_reader", "list_readers"]

ENTRY_POINT_GROUP = "chakra_core.readers"

READERS: tuple[str, ...] = (
    "chakra_core.readers.chakra_et",
    "chakra_core.readers.chakra_json",
    "chakra_core.readers.kineto",
    "chakra_core.readers.pytorch_et",
    "chakra_core.readers.xplane",
    "chakra_core.readers.run_metadata",
    "chakra_core.readers.flexflow",
    "chakra_core.readers.astrasim_text",
    "chakra_core.readers.astrasim_log",
    "chakra_core.readers.legion_prof",
)
"""Modules of the built-in readers; each has a ``READER``. Other packages add theirs as entry points."""


def list_readers() -> tuple[Reader, ...]:
    """Every reader: the built-in ones, then those of installed plug-ins (a broken one is a warning)."""
    built_in = [cast("Reader", importlib.import_module(module).READER) for module in READERS]
    return (*built_in, *_plugins())


@cache
def _plugins() -> tuple[Reader, ...]:
    """Readers of installed packages; looked up once, as going through all that is installed takes longer than reading."""
    found: list[Reader] = []
    for point in entry_points(group=ENTRY_POINT_GROUP):
        try:
            found.append(cast("Reader", point.load()))
        except Exception as error:  # noqa: BLE001 - a plug-in may fail in any way; it must not stop the others
            warnings.warn(f"reader plug-in {point.name!r} cannot be loaded: {error}", RuntimeWarning, stacklevel=3)
    return tuple(found)


def guess_reader(source: Source) -> Reader:
    """The reader that is surest about a file's content.

    Raises:
        UnknownFormat: no reader recognises it.
        CorruptTrace: its compression is damaged.
    """
    head = source.head
    readers = list_readers()
    scored = [(reader.sniff(head, source.name), at, reader) for at, reader in enumerate(readers)]
    score, _, best = max(scored, key=lambda entry: (entry[0], -entry[1]))
    if score <= 0:
        known = ", ".join(reader.name for reader in readers)
        raise UnknownFormat(f"{source.path}: not a trace in any known format ({known})")
    return best
