"""The verbs of ``chakra-dashboard``: one module each, listed here once."""

from __future__ import annotations

from dashboard.commands import analyze, compare, info, serve
from dashboard.commands.base import Command

__all__ = ["COMMANDS", "DEFAULT"]

COMMANDS: tuple[Command, ...] = (serve.COMMAND, info.COMMAND, analyze.COMMAND, compare.COMMAND)

DEFAULT = serve.COMMAND
"""What ``chakra-dashboard PATH…`` without a verb means."""
