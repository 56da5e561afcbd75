"""Entry point of the command line: ``chakra-dashboard [VERB] …``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from chakra_core import __version__
from chakra_core.errors import ChakraError
from dashboard.commands import COMMANDS, DEFAULT
from dashboard.commands.base import EXIT_FAILED, add_common, complain

__all__ = ["main"]


def build_parser() -> argparse.ArgumentParser:
    """The parser with one sub-parser per command."""
    parser = argparse.ArgumentParser(
        prog="chakra-dashboard",
        description="Open machine-learning execution traces in the browser, or analyse them on the command line.",
        epilog=f"Without a verb, '{DEFAULT.name}' is meant: chakra-dashboard PATH serves PATH.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for command in COMMANDS:
        sub = verbs.add_parser(command.name, help=command.help, description=command.help)
        command.configure(sub)
        add_common(sub)
        sub.set_defaults(run=command.run)
    return parser


def with_default_verb(arguments: Sequence[str]) -> list[str]:
    """Put the default verb in front where the first word is neither a verb nor asks for help or the version."""
    given = list(arguments)
    known = {command.name for command in COMMANDS} | {"-h", "--help", "--version"}
    return given if given and given[0] in known else [DEFAULT.name, *given]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; expected errors become one line on stderr and status 1."""
    options = build_parser().parse_args(with_default_verb(sys.argv[1:] if arguments is None else arguments))
    try:
        return int(options.run(options))
    except ChakraError as error:
        complain(error)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        else:
            complain(f"{error.filename or 'system'}: {error.strerror or error}")
    except KeyboardInterrupt:
        complain("interrupted")
    return EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
