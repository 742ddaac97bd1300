"""The one exception that is the user's to repair, and how errors read in one line."""

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from traceback import extract_tb


class UserError(ValueError):
    """A mistake of the user: one line naming the field, the value and the remedy.

    The command line prints it to stderr without a traceback and exits 2. The line may quote what a file, a game or a
    model says, so everything that is not printable becomes a space.
    """

    def __init__(self, message: object) -> None:
        super().__init__(one_line(message))


def one_line(message: object) -> str:
    """The message as one line of printable characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in str(message)).split())


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean NAME?`, or nothing where none of `known` is near."""
    near = get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def in_short(error: BaseException, *inside: str) -> str:
    """The error in one short line, with the place that raised it, unless that is one of the files `inside`."""
    place = extract_tb(error.__traceback__)[-1]
    where = "" if place.filename in inside else f" ({Path(place.filename).name}:{place.lineno})"
    try:
        said = str(error)
    except Exception:  # an exception of a game's own may fail even in this
        said = "(its text cannot be shown)"
    return one_line(f"{type(error).__name__}: {said}")[:200] + where
