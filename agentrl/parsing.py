"""From a reply's text to a legal action: declarative, deterministic, linear in the reply's length.

The last `ACTION:` counts, whatever stands before it. It may open a line in any case and any markdown ("**Action:** go
forward"), or stand inside a line in capitals ("THINK: it is ahead. ACTION: go forward"). A reply without a marker
counts if the whole of it is an action's name. Nothing else does: a name that is merely mentioned, in reasoning that the
length limit cut off for instance, is not an action. Reasoning in <think> tags is no part of the answer.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

MARKER = "ACTION:"

_MARKER = re.compile(
    r"""(?: ^[ \t>#*_`-]*(?i:ACTION)    # opens a line: in any case, behind markdown
        |   (?<!\w)ACTION )             # inside a line: only in capitals, so that prose cannot say it by accident
        [ \t*_`]*:""",
    re.MULTILINE | re.VERBOSE,
)
_BLANK = "".join(filter(str.isspace, map(chr, range(0x3001))))  # U+3000 is the last one
_SPACE = _BLANK + "*_`"
_PAIRS = {'"': '"', "'": "'", "“": "”", "\u2018": "\u2019", "«": "»"}
_OPENING = _SPACE + "".join(_PAIRS)
_EDGES = _OPENING + "".join(_PAIRS.values()) + "~#-.,;:!?()[]{}<>"


def parse_action(reply: str, legal: Sequence[str] | None, synonyms: Mapping[str, str]) -> str | None:
    """The action that a reply names, spelled as in `legal`; None if it names none. Never raises.

    Quotes, brackets, full stops, markdown, case and the width of blanks do not matter. A name is looked for before a
    synonym (`synonyms`: other spelling in lower case -> name). Two actions that differ in such trifles alone
    must be written exactly.

    With `legal` None the game takes free text: the line that the last marker begins, else the whole reply.
    """
    answer = _answer(reply)
    end = _last_marker(answer)
    text = answer if end < 0 else _first_line(answer[end:])
    if legal is None:
        return _unwrap(text) or None
    return _match(text.strip(), legal, synonyms)


def marker_ended(text: str) -> bool:
    """Whether `text` ends right after a marker, so that what comes next is the action.

    Blanks, markdown and an opening quote may already stand between.
    """
    if not text.rstrip(_OPENING).endswith(":"):
        return False
    answer = _answer(text)
    end = _last_marker(answer)
    return end >= 0 and not answer[end:].strip(_OPENING)


def _answer(reply: str) -> str:
    """What follows the reasoning; nothing where the reasoning did not end."""
    answer = reply.rpartition("</think>")[2]
    return "" if "<think>" in answer else answer


def _last_marker(text: str) -> int:
    """Where the last marker ends, -1 without one."""
    end = -1
    for match in _MARKER.finditer(text):
        end = match.end()
    return end


def _first_line(text: str) -> str:
    lines = text.lstrip(_SPACE).splitlines()
    return lines[0] if lines else ""


def _unwrap(text: str) -> str:
    """Without markdown and quotes around all of it; quotes around a part ('say "hello"') belong to it."""
    text = text.strip(_SPACE)
    first, last = 0, len(text) - 1
    while first < last and _PAIRS.get(text[first]) == text[last]:
        first, last = first + 1, last - 1
    return text[first : last + 1].strip(_SPACE)


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


@lru_cache(maxsize=4096)
def _name_key(name: str) -> str:
    return _plain(name).strip(_EDGES)


def _match(text: str, legal: Sequence[str], synonyms: Mapping[str, str]) -> str | None:
    if text in legal:
        return text
    plain = _plain(text)
    key = plain.strip(_EDGES)
    named = {name for name in legal if key and _name_key(name) == key}
    if not named:
        meant = (synonyms.get(spelling) for spelling in (plain, key))
        named = {name for name in meant if name is not None and name in legal}
    return named.pop() if len(named) == 1 else None
