"""What a command is, and what all of them share: options, JSON output, scopes, error lines."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = [
    "EXIT_FAILED",
    "EXIT_OK",
    "Command",
    "add_common",
    "add_files",
    "complain",
    "emit",
    "print_table",
    "size",
    "write_file",
]

EXIT_OK = 0
EXIT_FAILED = 1
_UNITS = {"k": 1_000, "m": 1_000_000, "g": 1_000_000_000, "t": 1_000_000_000_000}


@dataclass(frozen=True)
class Command:
    """One verb: its name, one line of help, its options, and what it does (returns the exit status)."""

    name: str
    help: str
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def add_common(parser: argparse.ArgumentParser) -> None:
    """Options that every verb takes."""
    parser.add_argument("--json", action="store_true", help="print one JSON document to stdout")
    parser.add_argument("--no-cache", action="store_true", help="neither read nor write the store of opened traces")


def add_files(parser: argparse.ArgumentParser) -> None:
    """Options of verbs whose result can be passed on as a file."""
    parser.add_argument("--csv", type=Path, metavar="FILE", help="also write the table as CSV")
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write one self-contained HTML page")


def write_file(path: Path, text: str) -> None:
    """Write a file that the user asked for, and say so on stderr; surrogates of broken names are replaced."""
    path.write_bytes(text.encode("utf-8", "replace"))
    complain(f"wrote {path}")


def size(text: str) -> int:
    """Bytes that an option such as ``4G``, ``500M`` or ``1.5`` (GB) stands for; decimal units.

    >>> size("4G"), size("500m"), size("1.5"), size("2GB")
    (4000000000, 500000000, 1500000000, 2000000000)

    Raises:
        argparse.ArgumentTypeError: it is no positive size.
    """
    number = text.strip().lower().removesuffix("b").removesuffix("i")
    unit = _UNITS.get(number[-1:], 0)
    try:
        found = round(float(number[:-1] if unit else number) * (unit or _UNITS["g"]))
    except (ValueError, OverflowError):
        found = 0
    if found <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write 4G or 500M")
    return found


def emit(document: dict[str, Any]) -> None:
    """Print a JSON document to stdout; numbers that JSON cannot hold become null."""
    sys.stdout.write(json.dumps(_plain(document), ensure_ascii=False, allow_nan=False, indent=2) + "\n")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return value


def complain(message: object) -> None:
    """Print one line to stderr; control characters of untrusted names are shown escaped."""
    text = "".join(ch if ch.isprintable() else ascii(ch)[1:-1] for ch in str(message))
    sys.stderr.write(f"chakra-dashboard: {text}\n")


def print_table(header: tuple[str, ...], rows: Sequence[tuple[object, ...]], *, width: int = 64) -> None:
    """Print rows in aligned columns; long cells are cut in the middle."""
    cells = [[_cell(entry, width) for entry in row] for row in [header, *rows]]
    widths = [max(len(row[at]) for row in cells) for at in range(len(header))]
    for row in cells:
        sys.stdout.write("  ".join(entry.ljust(size) for entry, size in zip(row, widths, strict=True)).rstrip() + "\n")


def _cell(value: object, width: int) -> str:
    text = "".join(ch if ch.isprintable() else "?" for ch in str(value))
    half = (width - 1) // 2
    return text if len(text) <= width else f"{text[:half]}…{text[-half:]}"
