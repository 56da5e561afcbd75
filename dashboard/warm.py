"""Compile the numerical kernels once, by showing every page of the bundled samples to nobody.

Compiled kernels are cached on disk, so this takes long only the first time after an installation or an update. Run it
as ``python -m dashboard.warm``; the server does it in the background when it starts.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from chakra_core.readers.base import Source
from chakra_core.readers.chakra_et import ChakraEtReader
from chakra_core.samples import list_samples, samples_root
from dashboard.library import Library
from dashboard.pages import PAGES
from dashboard.shell import content_for
from dashboard.state import ViewState
from dashboard.timeline_data import describe, links, window

__all__ = ["warm"]


def warm() -> int:
    """Open the samples and render every page of them; returns how many pages were rendered."""
    library = Library({"samples": samples_root()})
    refs = [f"samples/{sample.path.relative_to(samples_root())}" for sample in list_samples()]
    for path in sorted(samples_root().rglob("*.et"))[:1]:
        ChakraEtReader(scan_from=0).read(Source(path))  # the samples are too small for the scanner of large files
    rendered = 0
    for shown in [(ref,) for ref in refs[:1]] + [tuple(refs[-2:])]:
        for ref in shown:
            loaded = library.get(ref)
            described = describe(loaded)
            window(loaded, 0, int(described["span"]), 1000, np.arange(min(int(described["rows"]), 8)))
            links(loaded, loaded.run.ranks[0], 0)
        for page in PAGES:
            if page.runs <= len(shown):
                content_for(library, ViewState(page.slug, shown))
                rendered += 1
    return rendered


if __name__ == "__main__":
    sys.stderr.write("chakra-dashboard: compiling kernels (once)\n")
    begin = time.monotonic()
    pages = warm()
    sys.stderr.write(f"chakra-dashboard: {pages} pages rendered in {time.monotonic() - begin:.1f} s\n")
