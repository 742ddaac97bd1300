"""The face of a game that runs elsewhere: a `TextEnv` that can be asked ahead. Worker processes have it
(`agentrl.workers`); actors on other machines could."""

from abc import abstractmethod

from agentrl.envs import TextEnv


class RemoteGame(TextEnv):
    """A game in another process.

    `begin_reset` and `begin_step` hand a request over and return at once; `reset` and `step` with the same argument
    then wait for its answer. Games that were begun together play at the same time, and which is waited for first
    changes none of them. What has not been begun, `reset` and `step` begin themselves.

    `info` holds what the toolkit reads: legal actions, success, progression, achievements. The answers are checked
    already (`agentrl.answers`), and `prompt_facts()` is of the last one.

    Raises (any method that waits):
        GameFault: the game broke; only `reset` is possible then, and starts it anew.
        UserError: the game said that its user made a mistake; or there is no place to play it at.
    """

    @abstractmethod
    def begin_reset(self, seed: int | None) -> None: ...

    @abstractmethod
    def begin_step(self, action: str) -> None: ...
