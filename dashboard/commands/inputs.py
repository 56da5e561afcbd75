"""Paths given on the command line, as runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chakra_core.errors import ChakraError
from chakra_core.trace import Run

__all__ = ["open_each"]


def open_each(paths: Sequence[Path]) -> tuple[list[Run], list[dict[str, Any]]]:
    """Open every run in the paths: a file is one run, a folder gives the runs found below it.

    Returns:
        The runs, and for every file that could not be opened a record of its ``path`` and ``message``.
    """
    from chakra_core.opening import discover, open_run

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
