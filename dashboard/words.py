"""Numbers in words for people; see ``chakra_core.words``, where they are made."""

from __future__ import annotations

from chakra_core.words import count, duration, plain, share, size

__all__ = ["count", "duration", "plain", "share", "size"]
