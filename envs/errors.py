"""Mistakes in the choice of a game: one line naming the field, the value and the remedy."""

from collections.abc import Collection
from difflib import get_close_matches

from agentrl.errors import UserError

LISTED = 8


class GameError(UserError):
    """A game, task or option that does not exist, or a value that an option does not take."""


def unknown(field: str, value: str, what: str, known: Collection[str]) -> GameError:
    """The error for a name that is not among `known`; a near miss is suggested."""
    near = get_close_matches(value, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    names = ", ".join(list(known)[:LISTED]) or "none"
    more = ", ... (`agentrl games` lists them all)" if len(known) > LISTED else ""
    return GameError(f"{field} = {value!r}: {what}{hint} Known: {names}{more}")
