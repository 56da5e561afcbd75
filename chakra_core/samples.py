"""The bundled sample traces: where they are, and what ``index.toml`` says of each."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from chakra_core.errors import ChakraError

__all__ = ["Sample", "list_samples", "samples_root"]

_INDEX = "index.toml"


@dataclass(frozen=True, slots=True)
class Sample:
    """One bundled run.

    Attributes:
        path: file or folder to open.
        title: a few words for a list.
        description: what is to be seen in it.
        kind: ``pytorch``, ``distributed`` or ``synthetic``.
        origin: how it came about, with the command.
        hardware: what it ran on, or was simulated for.
        time: ``measured`` or ``simulated``.
    """

    path: Path
    title: str
    description: str
    kind: str
    origin: str
    hardware: str
    time: str


def samples_root() -> Path:
    """Folder of the bundled samples: beside this module when installed, at the top of the repository otherwise.

    Raises:
        ChakraError: neither is there.
    """
    here = Path(__file__).resolve().parent
    for folder in (here / "sample_traces", here.parent / "sample_traces"):
        if (folder / _INDEX).is_file():
            return folder
    raise ChakraError(f"no bundled samples: neither {here} nor its parent holds sample_traces/{_INDEX}")


def list_samples() -> tuple[Sample, ...]:
    """Every sample of the index, in its order.

    Raises:
        ChakraError: there are no samples, or the index is damaged.
    """
    root = samples_root()
    index = root / _INDEX
    try:
        entries = tomllib.loads(index.read_text(encoding="utf-8")).get("sample", [])
        return tuple(Sample(**{**entry, "path": root / entry["path"]}) for entry in entries)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise ChakraError(f"{index}: the index of samples is damaged: {error}") from error
