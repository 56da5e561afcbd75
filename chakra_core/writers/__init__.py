"""Writers: one module per format, Trace to bytes. ``convert`` makes files of a Run."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from chakra_core.writers.base import Writer

__all__ = ["WRITERS", "get_writer", "list_writers"]

WRITERS: tuple[str, ...] = (
    "chakra_core.writers.to_et",
    "chakra_core.writers.to_json",
    "chakra_core.writers.to_chrome",
    "chakra_core.writers.to_graphml",
    "chakra_core.writers.to_dot",
    "chakra_core.writers.to_parquet",
    "chakra_core.writers.to_csv",
)
"""Modules of the formats; each has a ``WRITER``."""


def list_writers() -> tuple[Writer, ...]:
    """Every writer, in the order of ``WRITERS``."""
    return tuple(cast("Writer", importlib.import_module(module).WRITER) for module in WRITERS)


def get_writer(name: str) -> Writer:
    """The writer of a name.

    Raises:
        KeyError: there is none.
    """
    return {writer.name: writer for writer in list_writers()}[name]
