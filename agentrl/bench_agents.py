"""Agent styles of the benchmark: what a reply is asked to look like, and how it is read.

They follow BALROG's agents (arXiv 2411.13543), so that scores can be compared; words are in prompts/bench.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from agentrl.dotted import imported
from agentrl.errors import UserError, did_you_mean

NOT_READ = "(no action could be read)"
"""What robust_cot passes on of a reply without tags."""

_TAGS = re.compile(r"<\|ACTION\|>(.*?)<\|END\|>", re.DOTALL)
_PLAN = re.compile(r"ACTION:(.*)", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Answer:
    """What was read of a reply: its action in the model's own spelling, and the reasoning that led to it."""

    action: str
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class AgentStyle:
    """One of the styles, or one of a user's own, made of the same parts and named by its dotted path.

    Attributes:
        name: of its suffix in prompts/bench/agents.yaml, unless `suffix` is given.
        read: reply -> answer.
        wrap: an action -> a reply that `read` reads it from; for players that only name actions.
        plans_shown: of how many replies, the newest, prompts show the reasoning in place of the action.
        demonstrates: whether scripted episodes are shown before the game.
        suffix: what is asked for under each observation.
    """

    name: str
    read: Callable[[str], Answer]
    wrap: Callable[[str], str] = lambda action: action
    plans_shown: int = 0
    demonstrates: bool = False
    suffix: str | None = None


def letters_alone(text: str) -> str:
    """Letters, blanks and colons: what BALROG's agents leave of a reply."""
    return "".join(c for c in text if c == ":" or c.isspace() or (c.isascii() and c.isalpha()))


def _naive(reply: str) -> Answer:
    return Answer(letters_alone(reply.strip()).strip())


def _cot(reply: str) -> Answer:
    """The text after the last marker, or all of it, which then is hardly an action."""
    return Answer(letters_alone(reply.rpartition("ACTION:")[2]).strip(), reply.strip())


def _robust_naive(reply: str) -> Answer:
    found = _TAGS.search(reply)
    return Answer((found[1] if found else reply).strip())


def _robust_cot(reply: str) -> Answer:
    found = _TAGS.search(reply)
    return Answer(found[1].strip() if found else NOT_READ, reply.strip())


def _plan(reply: str) -> Answer:
    found = _PLAN.search(reply)
    return Answer(found[1].strip() if found else "", reply.strip())


def _marked(action: str) -> str:
    return f"ACTION: {action}"


def _tagged(action: str) -> str:
    return f"<|ACTION|>{action}<|END|>"


STYLES = {
    style.name: style
    for style in (
        AgentStyle("naive", _naive),
        AgentStyle("cot", _cot, _marked, plans_shown=1),
        AgentStyle("robust_naive", _robust_naive, _tagged),
        AgentStyle("robust_cot", _robust_cot, _tagged),
        AgentStyle("plan", _plan, _marked),
        AgentStyle("few_shot", _naive, demonstrates=True),
    )
}


def agent_style(name: str) -> AgentStyle:
    """A style by its name, or by the dotted path of an `AgentStyle`.

    Raises:
        UserError: there is none.
    """
    if name in STYLES:
        return STYLES[name]
    if "." not in name:
        raise UserError(f"--agent {name}: one of {', '.join(STYLES)}, or a dotted path{did_you_mean(name, STYLES)}")
    found = imported(name, f"--agent {name}")
    if not isinstance(found, AgentStyle):
        raise UserError(
            f"--agent {name}: it is a {type(found).__name__}; it must be an agentrl.bench_agents.AgentStyle"
        )
    return found
