"""Settings from the command line, and the web server."""

from __future__ import annotations
