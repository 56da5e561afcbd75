"""The verbs of ``chakra-dashboard``: one module each, listed here once."""

from __future__ import annotations

from dashboard.commands.analyze import COMMAND as ANALYZE
from dashboard.commands.base import Command
from dashboard.commands.compare import COMMAND as COMPARE
from dashboard.commands.convert import COMMAND as CONVERT
from dashboard.commands.hardware import COMMAND as HARDWARE
from dashboard.commands.info import COMMAND as INFO
from dashboard.commands.project import COMMAND as PROJECT
from dashboard.commands.serve import COMMAND as SERVE

__all__ = ["COMMANDS", "DEFAULT"]

COMMANDS: tuple[Command, ...] = (SERVE, INFO, ANALYZE, COMPARE, PROJECT, CONVERT, HARDWARE)

DEFAULT = SERVE
"""What ``chakra-dashboard PATH…`` without a verb means."""
