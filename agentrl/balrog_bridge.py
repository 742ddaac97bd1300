"""Instruction texts of the real BALROG package, where the user has installed it. Nothing of it is copied here.

It comes from its git repository. The package of the same name on PyPI is another program, told apart by
`balrog.environments`, which it lacks.
"""

from collections.abc import Callable
from importlib import import_module
from importlib.resources import files
from typing import Any

from agentrl.bench_suite import original_names
from agentrl.envs import TextEnv
from agentrl.errors import UserError, in_short

INSTALL = "install it from its repository: pip install git+https://github.com/balrog-ai/BALROG"


def instructions(game_id: str) -> Callable[[TextEnv], str]:
    """A function from a running game to the instruction that BALROG gives for its task.

    Raises:
        UserError: the package is not there, is the other one, or fails to make the task.
    """
    environments = _environments()
    name, task = original_names(game_id)
    try:
        config = _config()
        env = environments.make_env(name, task, config)
    except Exception as error:
        raise UserError(f"--prompts balrog: the package balrog cannot make {name} {task}: {in_short(error)}") from error

    def instruct(game: TextEnv) -> str:
        try:
            text = env.get_instruction_prompt(instructions=game.mission or None)
        except Exception as error:
            raise UserError(f"--prompts balrog: no instruction for {name} {task}: {in_short(error)}") from error
        return str(text)

    return instruct


def _environments() -> Any:
    try:
        import_module("balrog")
    except ImportError as error:
        raise UserError(f"--prompts balrog: no package balrog ({in_short(error)}); {INSTALL}") from None
    try:
        return import_module("balrog.environments")
    except ModuleNotFoundError as error:
        if error.name != "balrog.environments":
            raise UserError(f"--prompts balrog: the package balrog lacks {error.name}; {INSTALL}") from None
        raise UserError(
            f"--prompts balrog: the package balrog that is installed is another program of that name "
            f"(pip uninstall balrog); {INSTALL}"
        ) from None
    except Exception as error:
        raise UserError(f"--prompts balrog: the package balrog cannot be imported: {in_short(error)}") from error


def _config() -> Any:
    """The package's own configuration, which its environments read."""
    return import_module("omegaconf").OmegaConf.load(str(files("balrog") / "config" / "config.yaml"))
