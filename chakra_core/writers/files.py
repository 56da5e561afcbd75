"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

__all__ = ["replacing"]


@contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """A binary file that takes the place of ``target`` when the block ends, and vanishes where the block fails.

    Raises:
        OSError: the folder does not exist or cannot be written.
    """
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(name).chmod(0o666 & ~_umask())
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    """The process's mask for new files; temporary files are private, results follow the user's setting."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
