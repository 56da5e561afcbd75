"""The pages, in the order of the navigation. Nothing else lists them."""

from __future__ import annotations

from dashboard.page import Page
from dashboard.pages.bottlenecks import PAGE as BOTTLENECKS
from dashboard.pages.codesign import PAGE as CODESIGN
from dashboard.pages.collectives import PAGE as COLLECTIVES
from dashboard.pages.compare import PAGE as COMPARE
from dashboard.pages.critical_path import PAGE as CRITICAL_PATH
from dashboard.pages.findings import PAGE as FINDINGS
from dashboard.pages.graph import PAGE as GRAPH
from dashboard.pages.launch import PAGE as LAUNCH
from dashboard.pages.memory import PAGE as MEMORY
from dashboard.pages.open import PAGE as OPEN
from dashboard.pages.operators import PAGE as OPERATORS
from dashboard.pages.overlap import PAGE as OVERLAP
from dashboard.pages.overview import PAGE as OVERVIEW
from dashboard.pages.roofline import PAGE as ROOFLINE
from dashboard.pages.timeline import PAGE as TIMELINE

__all__ = ["PAGES"]

PAGES: tuple[Page, ...] = (
    OPEN,
    OVERVIEW,
    TIMELINE,
    GRAPH,
    FINDINGS,
    BOTTLENECKS,
    OPERATORS,
    ROOFLINE,
    CRITICAL_PATH,
    LAUNCH,
    OVERLAP,
    COLLECTIVES,
    MEMORY,
    COMPARE,
    CODESIGN,
)
