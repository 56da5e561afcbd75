"""From recorded files to ``.et``: what every recorder does when its block ends."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from chakra_core.errors import ChakraError
from chakra_core.link import link
from chakra_core.opening import open_trace
from chakra_core.trace import Trace
from chakra_core.writers.chakra_et import write_et

__all__ = ["framework", "link_pair", "read_one", "write_rank"]


def framework(name: str, what: str) -> object:
    """Import a framework that is not among this package's requirements.

    Raises:
        ChakraError: it is not installed; says how to get it.
    """
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ChakraError(f"recording {what} needs the package {name!r}, which cannot be imported: {error}") from error


def write_rank(trace: Trace, target: Path, rank: int, world_size: int) -> Path:
    """Write one rank as ``.et``, with its rank and the number of ranks where the trace does not say them."""
    meta = trace.meta
    stated = dataclasses.replace(
        meta,
        rank=rank if meta.rank < 0 else meta.rank,
        world_size=world_size if meta.world_size < 0 else meta.world_size,
    )
    write_et(trace.with_(meta=stated), target)
    return target


def read_one(path: Path) -> Trace:
    """The only trace of a recorded file."""
    (trace,) = open_trace(path)
    return trace


def link_pair(host: Path, kineto: Path) -> Trace:
    """The trace of one rank from its host execution trace and its Kineto trace.

    Raises:
        LinkRefused: the two are not of the same run.
    """
    return link(read_one(host), read_one(kineto))
