"""Open, analyse, convert and project machine-learning execution traces. Imports neither dash nor plotly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chakra_core.trace import Run, Trace

if TYPE_CHECKING:
    from chakra_core.opening import open_run, open_trace

__all__ = ["Run", "Trace", "open_run", "open_trace"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import the opening functions only when asked for, so that ``import chakra_core`` stays fast."""
    if name in ("open_run", "open_trace"):
        from chakra_core import opening

        return getattr(opening, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
