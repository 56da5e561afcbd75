"""Compile the numerical kernels once, by showing every page of the bundled samples to nobody.

Compiled kernels are cached on disk, so this takes long only the first time after an installation or an update. Run it
as ``python -m dashboard.warm``; the server does it in the background when it starts.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from chakra_core.opening import open_trace
from chakra_core.readers.base import Source
from chakra_core.readers.chakra_et import ChakraEtReader
from chakra_core.readers.proto import xplane_pb2
from chakra_core.samples import list_samples, samples_root
from dashboard.later import parts
from dashboard.library import Library
from dashboard.page import Context
from dashboard.pages import PAGES
from dashboard.shell import content_for
from dashboard.state import ViewState
from dashboard.timeline_data import describe, links, window

__all__ = ["warm"]


def _smallest() -> dict[str, bytes]:
    """A file of each format whose reader has kernels that the samples do not need."""
    space = xplane_pb2.XSpace()
    line = space.planes.add(name=b"/host:CPU").lines.add(name=b"t")
    line.events.add(metadata_id=1, duration_ps=3000).stats.add(metadata_id=1, int64_value=5)
    return {
        "plane.xplane.pb": space.SerializeToString(),
        "simulated.log": b"issue,a=0,b=1,c=2,d=x\ncallback,a=0,b=3,c=2,d=x\n",
        "prof_0": b"FileType: BinaryLegionProf v: 1.0\nMaxDimDesc {id:1, max_dim:maxdim:4}\n\n\x01\0\0\0\x03\0\0\0",
    }


def _readers() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, content in _smallest().items():
            path = Path(folder, name)
            path.write_bytes(content)
            open_trace(path)


def warm() -> int:
    """Open the samples and render every page of them; returns how many pages were rendered."""
    library = Library({"samples": samples_root()})
    refs = [f"samples/{sample.path.relative_to(samples_root())}" for sample in list_samples()]
    for path in sorted(samples_root().rglob("*.et"))[:1]:
        ChakraEtReader(scan_from=0).read(Source(path))  # the samples are too small for the scanner of large files
    _readers()
    rendered = 0
    for shown in [(ref,) for ref in refs[:1]] + [tuple(refs[-2:])]:
        for ref in shown:
            loaded = library.get(ref)
            described = describe(loaded)
            window(loaded, 0, int(described["span"]), 1000, np.arange(min(int(described["rows"]), 8)))
            links(loaded, loaded.run.ranks[0], 0)
        for page in PAGES:
            if page.runs <= len(shown):
                state = ViewState(page.slug, shown)
                content_for(library, state)
                parts(page, Context(library, tuple(library.get(ref) for ref in shown), state))
                rendered += 1
    return rendered


if __name__ == "__main__":
    sys.stderr.write("chakra-dashboard: compiling kernels (once)\n")
    begin = time.monotonic()
    pages = warm()
    sys.stderr.write(f"chakra-dashboard: {pages} pages rendered in {time.monotonic() - begin:.1f} s\n")
