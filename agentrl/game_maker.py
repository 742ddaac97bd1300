"""Where a run's games are made: in its own process, or in worker processes."""

from collections.abc import Iterator
from contextlib import contextmanager

from agentrl import envs
from agentrl.config import Config, GameConfig
from agentrl.envs import TextEnv
from agentrl.errors import UserError
from agentrl.faults import in_words
from agentrl.workers import WorkerPool


class GameMaker:
    """Calling it makes a new game of the config.

    Attributes:
        pool: the worker processes; None where games are played at home.

    Raises:
        UserError: worker processes cannot find the game.
    """

    def __init__(self, config: Config) -> None:
        if config.workers.processes and envs.known_here_alone(config.game.id):
            raise UserError(
                f"workers.processes = {config.workers.processes}: {config.game.id} was given to envs.register, so no "
                f"other process knows it; name it FILE.py:CLASS, give it an entry point, or play it at home with 0"
            )
        self._game = config.game
        self.pool = WorkerPool(config.workers) if config.workers.processes else None

    def __call__(self) -> TextEnv:
        if self.pool:
            return self.pool.open(self._game.id, self._game.options)
        return envs.make(self._game.id, **self._game.options)

    @property
    def replaced(self) -> int:
        """Worker processes that had to be replaced so far."""
        return self.pool.replaced if self.pool else 0

    def close(self) -> None:
        """End the worker processes; they start again when a game is made."""
        if self.pool:
            self.pool.close()


def check_game(config: GameConfig) -> None:
    """Make the game once, here, and close it.

    Raises:
        UserError: unknown name, task or option, a value that an option does not take, or the game cannot be made.
    """
    with game_is_made(config):
        envs.make(config.id, **config.options).close()


@contextmanager
def game_is_made(config: GameConfig) -> Iterator[None]:
    """Whatever a game raises while it is made is a UserError that names it."""
    try:
        yield
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise UserError(f"game.id = {config.id}: cannot be made: {in_words(error)}") from error
