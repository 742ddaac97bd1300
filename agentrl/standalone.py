"""A model without a run around it: scored on held-out episodes, or fine-tuned on those of a scripted player."""

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from agentrl.assembly import Parts, assemble
from agentrl.config import Config
from agentrl.dpo import train_dpo
from agentrl.errors import UserError
from agentrl.evaluation import evaluate, summarise
from agentrl.imitation import warm_start
from agentrl.policy import save_policy
from agentrl.preferences import Pair, optimizer_steps
from agentrl.progress import evaluation_line, say, track
from agentrl.ranks import make_accelerator
from agentrl.records import Turn
from agentrl.results import machine, versions


def evaluate_model(config: Config, path: str | Path, greedy: bool = False) -> dict[str, Any]:
    """Score the model at `path` on `config.evaluation.episodes` held-out episodes, exactly as the trainer does.

    Raises:
        UserError: model, game, style or memory cannot be made, or there is no episode to play.
    """
    if not config.evaluation.episodes:
        raise UserError("evaluation.episodes = 0: nothing to play; give --episodes N")
    # A critic of its own plays no part here, and is as large as the model.
    config = config.model_copy(update={"model": config.model.model_copy(update={"critic": "value_head"})})
    player = "greedy" if greedy else f"sampled at temperature {config.engine.temperature:g}"
    parts = _parts(config, path)
    with closing(parts.games):
        figures = _score(parts, player, greedy)
    return {"model": str(path), "player": player, config.game.id: figures, **_stated(parts, path, greedy)}


def imitate_player(config: Config, out: Path, turns: list[Turn] | None = None) -> dict[str, Any]:
    """Fine-tune the config's model on `config.imitation.episodes` scripted episodes; save it at `out`, score it.

    With `turns`, on these instead.

    Raises:
        UserError: as `evaluate_model`; the folder is in use or cannot be written; the game has no scripted player, or
            none to learn from.
    """
    if turns is None and not config.imitation.episodes:
        raise UserError("imitation.episodes = 0: nothing to imitate; give --imitation.episodes=N")
    with new_folder(out):
        parts = _parts(config, config.model.path)
        with closing(parts.games):
            figures: dict[str, Any] = {"imitation": warm_start(parts, config, turns=turns)}
            save_policy(parts.model, parts.tokenizer, out)
            if config.evaluation.episodes:
                figures[config.game.id] = _score(parts, "after imitation")
    return {"model": str(out), **figures, **_stated(parts, out)}


def prefer(config: Config, pairs: list[Pair], out: Path, **settings: Any) -> dict[str, Any]:
    """Train the config's model on pairs of replies by DPO; save it at `out`, score it before and after.

    Args:
        settings: beta, epochs, lr and batch_pairs of `train_dpo`.

    Raises:
        UserError: as `evaluate_model`; the folder is in use; too few pairs, or pairs that are none of replies.
    """
    steps = optimizer_steps(len(pairs), settings["epochs"], settings["batch_pairs"])
    with new_folder(out):
        parts = _parts(config, config.model.path)
        with closing(parts.games):
            figures: dict[str, Any] = {}
            if config.evaluation.episodes:
                figures["before"] = {config.game.id: _score(parts, "before")}
            with track(steps, "DPO", "steps") as bar:
                autocast = parts.engine.autocast
                figures["dpo"] = train_dpo(parts.model, pairs, config, **settings, on_step=bar.step, autocast=autocast)
            save_policy(parts.model, parts.tokenizer, out)
            if config.evaluation.episodes:
                figures["after"] = {config.game.id: _score(parts, "after")}
    return {"model": str(out), **figures, **_stated(parts, out)}


@contextmanager
def new_folder(out: Path) -> Iterator[None]:
    """Make a folder before hours are spent on what goes there; it is gone again if nothing comes of it.

    Raises:
        UserError: there is something in it already, or it cannot be made.
    """
    if out.is_file() or (out.is_dir() and any(out.iterdir())):
        raise UserError(f"{out} is in use: choose another folder with --out, or remove it")
    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{out} cannot be written: {error.strerror}; choose another folder with --out") from error
    try:
        yield
    except BaseException:
        with suppress(OSError):  # not empty: something came of it
            for folder in made:
                folder.rmdir()
        raise


def _parts(config: Config, path: str | Path | None) -> Parts:
    accelerator = make_accelerator(config)
    return assemble(config, path, accelerator.device, accelerator.autocast)


def _stated(parts: Parts, path: str | Path, greedy: bool = False) -> dict[str, Any]:
    """What one needs to know to compare the figures of the model at `path`."""
    played = {"model.path": str(path), **({"engine.temperature": 0.0} if greedy else {})}
    return {
        "seed": parts.config.seed,
        "settings": {**parts.games.settings, **played},
        "machine": machine(),
        "versions": versions(),
    }


def _score(parts: Parts, player: str, greedy: bool = False) -> dict[str, Any]:
    """Figures of held-out episodes, said in one line too."""
    section, game = parts.config.evaluation, parts.config.game.id
    with track(section.episodes, "evaluating", "episodes") as bar:
        agent, numbers = parts.agent("evaluation", greedy), range(section.episodes)
        episodes = evaluate(agent, parts.games, numbers, section.num_envs, on_episode=lambda episode: bar.advance())
    figures = summarise(episodes)
    say(evaluation_line(player, game, figures))
    return figures
