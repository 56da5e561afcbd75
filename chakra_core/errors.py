"""Every error this package raises on purpose; each message names the input, the place and a remedy."""

from __future__ import annotations

__all__ = ["AnalysisError", "ChakraError", "CorruptTrace", "LimitExceeded", "UnknownFormat"]


class ChakraError(Exception):
    """Base of all errors that a user can cause and cure."""


class UnknownFormat(ChakraError):
    """No reader recognises the content, or the content is known but is not a trace."""


class CorruptTrace(ChakraError):
    """The format is recognised, but nothing usable could be read from the file."""


class LimitExceeded(ChakraError):
    """A size, expansion or time limit was hit before reading ended."""


class AnalysisError(ChakraError):
    """The analysis does not apply to this trace or the request does not fit it."""
