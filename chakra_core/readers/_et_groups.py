"""Ranks and process groups of Chakra traces: from metadata, from PyTorch's init node, from a file beside the trace."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.trace import ProcessGroup

if TYPE_CHECKING:
    from chakra_core.readers._et_table import NodeTable

__all__ = ["process_groups", "rank_of", "side_files", "whole"]

_RANK_IN_NAME = re.compile(r"(?:^|[._-])(?:rank[_-]?)?(\d{1,9})\.(?:et|eg|json)(?:\.\w+)?$", re.IGNORECASE)
_MAX_SIDE_FILE = 16 * 1024 * 1024
_INIT = "process_group:init"


def whole(value: Any) -> int:
    """A fact as a non-negative int; -1 where it is none."""
    return int(value) if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else -1


def rank_of(path: Path, facts: Mapping[str, Any]) -> int:
    """The rank that the metadata states, else the number before the suffix of the file's name, else -1."""
    stated = whole(facts.get("rank"))
    match = _RANK_IN_NAME.search(path.name)
    return stated if stated >= 0 or not match else int(match[1])


def process_groups(
    table: NodeTable, path: Path, facts: Mapping[str, Any]
) -> tuple[tuple[ProcessGroup, ...], NDArray[np.int64]]:
    """The groups that nodes name, with their ranks where known, and which group each node names (-1: none)."""
    named = table.text_columns["pg_name"]
    used = [number for number in np.unique(named).tolist() if number >= 0]
    known = _from_facts(facts) or _from_init(table) or (_from_side_file(path) if used else {})
    names = list(dict.fromkeys([*(table.texts[number] for number in used), *known]))
    place = {name: at for at, name in enumerate(names)}
    by_text = np.full(len(table.texts) + 1, -1, np.int64)
    for number in used:
        by_text[number] = place[table.texts[number]]
    return tuple(known.get(name, ProcessGroup(name)) for name in names), by_text[named]


def _from_facts(facts: Mapping[str, Any]) -> dict[str, ProcessGroup]:
    return _parse(str(facts.get("process_groups", "")))


def _from_init(table: NodeTable) -> dict[str, ProcessGroup]:
    """Groups listed by the ``## process_group:init ##`` node, whose input is JSON inside a list literal."""
    for code in [number for number, text in enumerate(table.texts) if _INIT in text]:
        for row in np.flatnonzero(table.name == code).tolist():
            text = table.texts[int(table.inputs[row])] if table.inputs[row] >= 0 else ""
            start, end = text.find("[{"), text.rfind("}]")
            if 0 <= start < end:
                return _parse(text[start : end + 2])
    return {}


def _parse(text: str) -> dict[str, ProcessGroup]:
    try:
        listed = json.loads(text) if text else []
    except (ValueError, RecursionError):
        return {}
    found = {}
    for entry in listed if isinstance(listed, list) else []:
        if isinstance(entry, dict) and "pg_name" in entry:
            ranks = entry.get("ranks")
            members = tuple(rank for rank in ranks if whole(rank) >= 0) if isinstance(ranks, list) else ()
            size = whole(entry.get("pg_size", entry.get("group_size")))
            name = str(entry["pg_name"])
            found[name] = ProcessGroup(
                name, members, str(entry.get("pg_desc", "")), size if size >= 0 else len(members)
            )
    return found


def side_files(folder: Path) -> list[Path]:
    """Small JSON files of a folder, of which one may list the process groups of the traces beside it."""
    found = sorted(folder.glob("*.json"))[:64]
    return [path for path in found if path.is_file() and path.stat().st_size <= _MAX_SIDE_FILE]


def _from_side_file(path: Path) -> dict[str, ProcessGroup]:
    """Groups from ASTRA-sim's file ``{"1": [0, 1], …}``, the only such JSON in the trace's folder."""
    found = []
    for side in side_files(path.parent):
        if side != path:
            try:
                content = json.loads(side.read_bytes())
            except (ValueError, OSError, RecursionError):
                continue
            if _is_group_map(content):
                found.append(content)
    if len(found) != 1:
        return {}
    return {name: ProcessGroup(name, tuple(ranks), size=len(ranks)) for name, ranks in found[0].items()}


def _is_group_map(content: Any) -> bool:
    return (
        isinstance(content, dict)
        and bool(content)
        and all(name.isdigit() for name in content)
        and all(isinstance(ranks, list) and all(whole(rank) >= 0 for rank in ranks) for ranks in content.values())
    )
