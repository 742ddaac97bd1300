"""A run's folder: one run fills it, alone."""

from pathlib import Path

from agentrl.checkpoint import checkpoints
from agentrl.config import Config
from agentrl.configfile import dump_config, require_same_run
from agentrl.errors import UserError
from agentrl.results import write_text


def claim(run_dir: Path, config: Config, resume: bool) -> list[Path]:
    """The finished checkpoints to go on from, oldest first; nothing is written yet.

    Raises:
        UserError: the folder is in use and `resume` is not set, or it holds a run of another game, model or seed.
    """
    found = checkpoints(run_dir)
    if not resume and ((run_dir / "metrics.jsonl").exists() or found):
        raise UserError(f"{run_dir} holds a run already: add --resume, give another --name, or remove the folder")
    if resume and (run_dir / "config.yaml").exists():
        require_same_run(config, run_dir / "config.yaml")
    return found


def open_folder(run_dir: Path, config: Config) -> None:
    """Make the folder, with config.yaml in it.

    Raises:
        UserError: it cannot be written.
    """
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        write_text(run_dir / "config.yaml", dump_config(config))
    except OSError as error:
        raise UserError(f"output_dir = {config.output_dir}: cannot be written: {error}") from error
