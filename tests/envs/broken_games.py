"""A sound game, and what can be wrong with one: each class breaks one promise, that of the check in its docstring.

Loaded as broken_games.py:CLASS, in the processes of `agentrl check-env`.
"""

import os
import random
import subprocess
import sys
import threading
import time

from gymnasium.error import ResetNeeded

from agentrl.envs import Observation, TextEnv


class Sound(TextEnv):
    """A path of places from 0 to 6: walk to the one that is named."""

    actions = {"left": "one place down", "right": "one place up"}
    default_action = "left"
    max_turns = 8
    synonyms = {"west": "left", "east": "right"}
    over = True

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.goal = (int(self.np_random.integers(7)) for _ in range(2))
        self.goal += self.goal == self.place
        self.turn, self.over = 0, False
        self.mission = f"go to {self.goal}"
        return self.seen(), {}

    def step(self, action):
        if self.over:
            raise ResetNeeded("reset it")
        self.turn += 1
        self.place += 1 if action == "right" else -1
        won, late = self.place == self.goal, self.turn >= self.max_turns
        self.over = won or late
        return self.seen(), float(won), won, late and not won, self.end(won) if self.over else {}

    def seen(self):
        return Observation(f"You are at {self.place}.", f"Turn {self.turn}.")

    def end(self, won):
        return {"success": won, "progression": float(won)}


class MakerRaises(Sound):
    """made"""

    def __init__(self):
        raise OSError("no display")


class Alone(Sound):
    """made"""

    instances = 0

    def __init__(self):
        Alone.instances += 1
        if Alone.instances > 1:
            raise OSError("address already in use")


class NoActions(Sound):
    """actions"""

    actions = {}


class UnknownLegal(Sound):
    """actions"""

    def step(self, action):
        *answer, info = super().step(action)
        return *answer, info | {"legal_actions": ["left", "up"]}


class IllegalDefault(Sound):
    """default-action"""

    default_action = "stay"


class IllegalDefaultThisTurn(Sound):
    """default-action"""

    def step(self, action):
        *answer, info = super().step(action)
        return *answer, info | {"legal_actions": ["right"]}


class AmbiguousSynonym(Sound):
    """synonyms"""

    synonyms = {"right": "left"}


class UnheardSynonym(Sound):
    """synonyms"""

    synonyms = {"West": "left"}


class LongObservation(Sound):
    """observation"""

    def seen(self):
        return Observation("The path goes on. " * 1000)


class NoObservation(Sound):
    """observation"""

    def seen(self):
        return f"You are at {self.place}."


class BrokenFacts(Sound):
    """prompt"""

    def prompt_facts(self):
        return {"still to do": self.nothing_of_that_name}


class NanReward(Sound):
    """reward"""

    def step(self, action):
        seen, reward, *rest = super().step(action)
        return seen, reward / reward if reward else float("nan"), *rest


class SilentEnd(Sound):
    """end-info"""

    def end(self, won):
        return {"success": won}


class ProgressInPercent(Sound):
    """end-info"""

    def end(self, won):
        return {"success": won, "progression": 100.0 * won}


class WonButTruncated(Sound):
    """terminated"""

    def step(self, action):
        seen, reward, terminated, truncated, info = super().step(action)
        return seen, reward, False, terminated or truncated, info


class LimitIsAnEnd(Sound):
    """truncated"""

    def step(self, action):
        seen, reward, terminated, truncated, info = super().step(action)
        return seen, reward, terminated or truncated, False, info


class Endless(Sound):
    """truncated"""

    def step(self, action):
        seen, reward, terminated, _, info = super().step(action)
        self.over = terminated
        return seen, reward, terminated, False, info


class PlaysOn(Sound):
    """step-after-end"""

    def step(self, action):
        self.over = False
        return super().step(action)


class HashOrder(Sound):
    """same-episode"""

    def seen(self):
        return Observation(f"You are at {self.place}. Around: {', '.join({'a tree', 'a stone', 'a bush', 'a cow'})}.")


class OneLevel(Sound):
    """seeds-differ"""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=5)


class OneLevelBySaying(OneLevel):
    """seeds-differ, but for its word"""

    one_level = True


class DeafToSeeds(Sound):
    """reset-seed"""

    def __init__(self):
        self.levels = random.Random(0)

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=self.levels.randrange(1000))


class Raises(Sound):
    """no-exception"""

    def step(self, action):
        if self.place > 3:
            raise ValueError("fell off\nthe \x1b[31mpath")
        return super().step(action)


class OddSynonyms(Sound):
    """synonyms"""

    synonyms = None


class Hangs(Sound):
    """no-hang"""

    def step(self, action):
        while self.place == 5:
            time.sleep(1)
        return super().step(action)


class HangsInC(Sound):
    """no-hang"""

    def step(self, action):
        return sum(range(10**11)) if self.place == 5 else super().step(action)


class Exits(Sound):
    """no-crash"""

    def step(self, action):
        return os._exit(3) if self.place == 5 else super().step(action)


class Segfaults(Sound):
    """no-crash"""

    def step(self, action):
        if self.place == 5:
            import ctypes

            ctypes.string_at(0)
        return super().step(action)


class AsciiOnly(Sound):
    """replies"""

    actions = None
    synonyms = {}

    def step(self, action):
        action.encode("ascii")
        return super().step(action)


class LeaksFiles(Sound):
    """close"""

    def __init__(self):
        self.log = open(os.devnull)  # noqa: SIM115


class LeaksThreads(Sound):
    """close"""

    def reset(self, **arguments):
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
        return super().reset(**arguments)


class LeaksProcesses(Sound):
    """close"""

    def __init__(self):
        self.server = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


class Slow(Sound):
    """time"""

    max_turns = 2

    def step(self, action):
        time.sleep(0.11)
        return super().step(action)
