"""CSV: the node table as text, safe to open in a spreadsheet.

A cell that a spreadsheet would take for a formula (it begins with ``=``, ``+``, ``-``, ``@``, a tab or a line break)
gets an apostrophe in front, which spreadsheets show as text.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, cast

from chakra_core.writers.base import Rank, Writer
from chakra_core.writers.files import replacing
from chakra_core.writers.table import node_table

__all__ = ["WRITER"]

_RISKY = ("=", "+", "-", "@", "\t", "\r", "\n")


def _write(ranks: Sequence[Rank], path: Path, compress: bool) -> None:
    frame = node_table(ranks)
    for name in ("name", "lane", "shapes", "comm_group"):
        frame[name] = [_safe(str(value)) for value in frame[name]]
    with replacing(path) as file:
        if compress:
            with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as out:
                _to(frame, cast("IO[bytes]", out))
        else:
            _to(frame, file)


def _to(frame: Any, file: IO[bytes]) -> None:
    frame.to_csv(file, index=False, encoding="utf-8", errors="replace", lineterminator="\r\n", mode="wb")


def _safe(text: str) -> str:
    return f"'{text}" if text.startswith(_RISKY) else text


WRITER = Writer("csv", "CSV table of all nodes", ".csv", _write, per_rank=False)
