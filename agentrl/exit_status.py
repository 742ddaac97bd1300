"""How the command `agentrl` ends: its exit status, and one line on stderr for what is no bug."""

import sys
from typing import Any

import typer
from typer.core import TyperGroup

from agentrl.errors import UserError, one_line


class OneLineErrors(TyperGroup):
    """A user's mistake is one line on stderr and status 2, a disk that fails is status 1, Ctrl-C status 130; anything
    else is a bug: a traceback."""

    def main(self, *args: Any, **extra: Any) -> Any:
        extra["standalone_mode"] = False
        try:
            status = super().main(*args, **extra)
        except (typer.TyperException, UserError) as error:
            message = error.format_message() if isinstance(error, typer.TyperException) else error
            print(f"agentrl: {one_line(message)}", file=sys.stderr)
            status = 2
        except OSError as error:  # no room left, no permission, a folder where a file was: it names the path
            print(f"agentrl: {one_line(error)}", file=sys.stderr)
            status = 1
        except typer.Abort:
            status = 130
        sys.exit(status)
