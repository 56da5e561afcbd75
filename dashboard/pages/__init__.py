"""The pages, in the order of the navigation. Nothing else lists them."""

from __future__ import annotations

from dashboard.page import Page

__all__ = ["PAGES"]

PAGES: tuple[Page, ...] = ()
