"""Paths given on the command line, as runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from chakra_core.errors import ChakraError
from chakra_core.trace import Run

__all__ = ["add_together", "open_each", "opener"]


def opener(options: argparse.Namespace) -> Callable[..., Run]:
    """How a command opens runs: through the store, or with ``--no-cache`` straight from the files."""
    from chakra_core.opening import open_run
    from chakra_core.store import Store

    return open_run if options.no_cache else Store().open_run


def add_together(parser: argparse.ArgumentParser) -> None:
    """Declare ``--together``."""
    parser.add_argument(
        "--together", action="store_true", help="the paths are one run: its ranks, or host traces and profiles to link"
    )


def open_each(paths: Sequence[Path], options: argparse.Namespace) -> tuple[list[Run], list[dict[str, Any]]]:
    """Open every run in the paths: a file is one run, a folder gives the runs found below it.

    Returns:
        The runs, and for every file that could not be opened a record of its ``path`` and ``message``.
    """
    from chakra_core.opening import discover

    open_run = opener(options)
    if options.together:
        return [open_run(paths)], []
    runs: list[Run] = []
    errors: list[dict[str, Any]] = []
    for path in paths:
        try:
            found = discover(path)
        except (ChakraError, OSError) as error:
            errors.append(_error(path, error))
            continue
        for files in found:
            try:
                runs.append(open_run(files.paths, label=files.label))
            except (ChakraError, OSError) as error:
                errors.append(_error(files.paths[0], error))
    return runs, errors


def _error(path: Path, error: ChakraError | OSError) -> dict[str, Any]:
    text = f"{path}: {error.strerror or error}" if isinstance(error, OSError) else str(error)
    return {"path": str(path), "message": text}
