"""Cards: the README.md of an exported model or dataset, with YAML for the Hub in front.

Names and texts of games, recipes and results are hostile: YAML comes from a dumper, and text in Markdown cannot become
markup, a link or another table.
"""

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentrl.config import Config
from agentrl.configfile import dump_config
from agentrl.errors import one_line
from agentrl.faults import visible
from agentrl.plainyaml import dump_yaml
from agentrl.report_charts import is_interval, is_number, number
from agentrl.report_evaluations import ON_THE_WAY, PLAYERS
from agentrl.results import evaluations

FIGURES = ("success", "progression", "return", "achievements", "length", "invalid_fraction", "errors")
"""What a table of results shows, where any of its rows has it."""

INDEXED = ("success", "progression", "return", "achievements")
"""What the Hub is told of them."""

OWN_PLAYERS = ("after", "after_greedy")
"""Evaluations of the last update's weights; those of an earlier checkpoint are called update-N."""

COLUMNS = {
    "part": "the file that the turn comes from: a batch of training (`update-N`), or an evaluation",
    "game, seed": "what was played; a seed and the actions fix an episode",
    "slot, episode, turn": "an episode has the same `part`, `game`, `slot` and `episode`, in the order of `turn`",
    "messages": "the prompt, in OpenAI form",
    "reply_text, action, valid": "what the model answered, the action executed, whether the reply named it",
    "prompt_ids, reply_ids": "the tokens themselves; `reply_ids` ends with the token that ended the turn",
    "reply_logprobs, reply_legal": "of the sampler, at its temperature, and the ids it chose among (empty: all)",
    "reward, terminated, truncated": "the game's answer",
    "reward_parts, notes": "what else was paid, and said, beside the game's own reward",
    "value, advantage": "the critic's, at the first token of the reply; null where none was computed",
    "policy_version, finish_reason, dropped_turns": "updates behind the weights; stop, length or error; past turns cut",
    "error": "why the turn broke; null: it did not",
    "next_prompt_ids": "the prompt after a cut (a time limit, the batch's end)",
}
"""What the columns of a dataset of turns mean."""


def escaped(text: object) -> str:
    """The text in one line of Markdown, as nothing but text, in a cell of a table too."""
    plain = html.escape(one_line(visible(str(text))))
    return re.sub(r"[|`\[\]!*~\\]", lambda found: f"&#{ord(found[0])};", plain)


def fenced(text: str, language: str) -> str:
    """A block of code that its text cannot end."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{visible(text).rstrip()}\n{fence}"


def front_matter(tree: Mapping[str, Any]) -> str:
    return f"---\n{dump_yaml(_one_line_each(dict(tree)))}---"


def model_card(name: str, step: int, config: Config, results: Mapping[str, Any]) -> str:
    """The card of the checkpoint after `step` updates.

    Args:
        results: results.json of the run; empty where there is none yet.
    """
    last = results.get("updates") == step
    own = OWN_PLAYERS if last else (f"{ON_THE_WAY}{step}",)
    shown = {
        player: tasks
        for player, tasks in evaluations(results).items()
        if player in own or (player in PLAYERS and player not in OWN_PLAYERS)
    }
    base = config.model.path if config.model.path and re.fullmatch(r"[\w.-]+/[\w.-]+", config.model.path) else None
    head = {
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["agentrl", "reinforcement-learning", "text-games", config.game.id],
        **({"base_model": base} if base else {}),
        **_index(name, {player: tasks for player, tasks in shown.items() if player in own}),
    }
    origin = f"It began as {escaped(config.model.path)}." if config.model.path else "It began with random weights."
    parts = [
        front_matter(head),
        f"# {escaped(name)}",
        f"A language model that plays the text game {escaped(config.game.id)}, trained turn by turn with agentrl: "
        f"{step} updates. {origin}",
        "## Results",
        *_results_text(shown, own, step, config),
        "## How to use it",
        *_use_text(config),
        "## Recipe",
        f"Also in `recipe.yaml`. Seed {config.seed}.",
        fenced(dump_config(config), "yaml"),
        *_played_under(results),
    ]
    return "\n\n".join(parts) + "\n"


def dataset_card(
    name: str, splits: Mapping[str, str], counts: Sequence[Mapping[str, Any]], results: Mapping[str, Any]
) -> str:
    """The card of a folder of turns.

    Args:
        splits: split -> pattern of its files.
        counts: rows of a table: split, part, game, turns, episodes.
        results: results.json of what was exported; empty where there is none.
    """
    turns = sum(row["turns"] for row in counts)
    games = sorted({row["game"] for row in counts})
    head = {
        "task_categories": ["text-generation", "reinforcement-learning"],
        "tags": ["agentrl", "text-games", *games[:50]],
        "size_categories": [_size(turns)],
        "configs": [
            {
                "config_name": "default",
                "data_files": [{"split": split, "path": pattern} for split, pattern in splits.items()],
            }
        ],
    }
    load = 'from datasets import load_dataset\n\nturns = load_dataset("path/to/this/folder")'
    parts = [
        front_matter(head),
        f"# {escaped(name)}",
        f"{turns:,} turns of text games, exported by agentrl: each with its prompt, its reply and the game's answer.",
        fenced(load, "python"),
        "## What is in it",
        _table(["split", "part", "game", "turns", "episodes"], [list(map(escaped, row.values())) for row in counts]),
        "## Columns",
        _table(["column", "meaning"], [[f"`{names}`", meaning] for names, meaning in COLUMNS.items()]),
        *_played_under(results),
    ]
    return "\n\n".join(parts) + "\n"


def _results_text(
    shown: Mapping[str, Mapping[str, dict[str, Any]]], own: Sequence[str], step: int, config: Config
) -> Iterator[str]:
    if not any(player in own for player in shown):
        yield f"These weights, after {step} updates, were not evaluated on their own."
    rows = [(player, task, figures) for player, tasks in shown.items() for task, figures in tasks.items()]
    names = [name for name in FIGURES if any(is_number(figures.get(name)) for _, _, figures in rows)]
    if not rows:
        return
    yield _table(
        ["player", "game", "episodes", *(name.replace("_", " ") for name in names)],
        [
            [
                *map(escaped, (_label(player), task, figures.get("episodes"))),
                *(_figure(figures, name) for name in names),
            ]
            for player, task, figures in rows
        ],
    )
    yield (
        "In brackets 95 % intervals: Wilson's of a rate, else a bootstrap over episodes. Held-out episodes, each "
        f"played to its end, sampled at temperature {config.engine.temperature:g} unless it says greedy."
    )
    if config.engine.constrain == "actions":
        yield (
            "Played with `engine.constrain: actions`: only legal actions could be sampled. An engine that decodes "
            "freely may also get replies that name none."
        )


def _use_text(config: Config) -> Iterator[str]:
    yield fenced("agentrl eval path/to/this/folder --config path/to/this/folder/recipe.yaml", "bash")
    yield (
        "It expects the prompts that it was trained on, which that command builds: "
        f"style {escaped(config.prompt.style)}, {config.prompt.history} past turns. As any chat model:"
    )
    yield fenced(
        "from transformers import AutoModelForCausalLM, AutoTokenizer\n\n"
        'tokenizer = AutoTokenizer.from_pretrained("path/to/this/folder")\n'
        'model = AutoModelForCausalLM.from_pretrained("path/to/this/folder")\n'
        'messages = [{"role": "user", "content": "..."}]\n'
        "inputs = tokenizer.apply_chat_template(\n"
        '    messages, add_generation_prompt=True, return_dict=True, return_tensors="pt"\n'
        ")\n"
        f"reply = model.generate(**inputs, max_new_tokens={config.engine.max_reply_tokens})",
        "python",
    )


def _played_under(results: Mapping[str, Any]) -> Iterator[str]:
    settings, versions = results.get("settings"), results.get("versions")
    if isinstance(settings, Mapping):
        yield "## Settings of the results"
        yield _table(["setting", "value"], [[escaped(name), escaped(value)] for name, value in settings.items()])
    if isinstance(versions, Mapping):
        yield "## Versions"
        machine = f" Played on {escaped(results['machine'])}." if "machine" in results else ""
        commit = f" Commit {escaped(results['commit'])}." if results.get("commit") else ""
        yield (
            ", ".join(f"{escaped(name)} {escaped(version)}" for name, version in versions.items())
            + f".{machine}{commit}"
        )


def _index(name: str, own: Mapping[str, Mapping[str, dict[str, Any]]]) -> dict[str, Any]:
    """The Hub's `model-index`: evaluations of these very weights."""
    entries = [
        {
            "task": {"type": "reinforcement-learning", "name": _label(player)},
            "dataset": {"type": task, "name": task},
            "metrics": [
                {"type": figure, "name": f"{figure}, {_label(player)}", "value": figures[figure]}
                for figure in INDEXED
                if is_number(figures.get(figure))
            ],
        }
        for player, tasks in own.items()
        for task, figures in tasks.items()
    ]
    return {"model-index": [{"name": name, "results": entries}]} if entries else {}


def _label(player: str) -> str:
    updates = player.removeprefix(ON_THE_WAY)
    return PLAYERS.get(player, f"after {updates} updates" if updates != player else player)


def _figure(figures: Mapping[str, Any], name: str) -> str:
    value, bounds = figures.get(name), figures.get(f"{name}_ci95")
    if not is_number(value):
        return "-"
    return number(value) + (f" [{number(bounds[0])}, {number(bounds[1])}]" if is_interval(bounds) else "")


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of cells that are Markdown."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (names, ["---"] * len(names), *rows))


def _size(turns: int) -> str:
    """The Hub's word for a number of rows."""
    bounds = [(10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"), (10**7, "1M<n<10M")]
    return next((word for bound, word in bounds if turns < bound), "10M<n<100M")


def _one_line_each(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {one_line(key): _one_line_each(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_one_line_each(part) for part in value]
    return one_line(value) if isinstance(value, str) else value
