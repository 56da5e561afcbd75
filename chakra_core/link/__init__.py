"""Host execution trace and device profile of one rank, put together into one Trace."""

from __future__ import annotations

from chakra_core.link.combine import link
from chakra_core.link.match import LinkRefused, Match, match
from chakra_core.link.pairs import link_traces

__all__ = ["LinkRefused", "Match", "link", "link_traces", "match"]
