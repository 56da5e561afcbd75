"""Take out of a recorded trace what says where it was recorded: host name, file paths, user names."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

_PATH = re.compile(r"(?<![\w.])/(?:[\w.+@-]+/)+[\w.+@-]*")


def scrub(value: Any) -> Any:
    """The same JSON value with absolute paths cut to their last part and the host named ``example-host``."""
    if isinstance(value, dict):
        return {key: "example-host" if key == "host_name" else scrub(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [scrub(entry) for entry in value]
    if isinstance(value, str):
        return _PATH.sub(lambda found: found.group().rstrip("/").rpartition("/")[2], value)
    return value


def write_scrubbed(source: Path, target: Path) -> None:
    """Read a JSON trace, scrub it, and write it gzipped, with no name or time in the gzip header."""
    content = json.dumps(scrub(json.loads(source.read_text(encoding="utf-8"))), separators=(",", ":"))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(gzip.compress(content.encode(), compresslevel=9, mtime=0))
    print(f"{target}: {target.stat().st_size:,} bytes")
