"""gymnasium's toy-text games, told in words: FrozenLake, Taxi, Blackjack, CliffWalking.

Rules, rewards and chances are gymnasium's; words, time limits where it has none, success and progression are ours.
Rows and columns count from 1, from the north-west.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import gymnasium
from gymnasium.envs.toy_text.blackjack import BlackjackEnv
from gymnasium.envs.toy_text.cliffwalking import CliffWalkingEnv
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv
from gymnasium.envs.toy_text.taxi import TaxiEnv
from gymnasium.error import ResetNeeded

from agentrl.envs.base import Observation, ScriptedPlayer, TextEnv
from agentrl.envs.options import choice, own_options, switch
from agentrl.envs.registry import GameSpec
from agentrl.envs.toytext_player import best_actions

WAYS = ("north", "east", "south", "west")
STEPS = {"north": (-1, 0), "east": (0, 1), "south": (1, 0), "west": (0, -1)}
SPOKEN = {"north": "up", "east": "right", "south": "down", "west": "left"}
GOING = {f"go {way}": f"one step to the {way}" for way in WAYS}
GOING_SYNONYMS = {
    f"{verb}{word}": f"go {way}" for way in WAYS for word in (way, SPOKEN[way]) for verb in ("", "go ", "move ")
    if f"{verb}{word}" != f"go {way}"
}  # fmt: skip
DISCOUNT = 0.99
"""What the scripted player plans with: 1 would not tell the short way from the long one on the lake."""

Place = tuple[int, int]


class ToyText(TextEnv):
    """One of the games; `numbers` are gymnasium's for the actions. The state of the inner game is all there is."""

    numbers: ClassVar[dict[str, int]]
    actions: dict[str, str]

    def __init__(self, inner: gymnasium.Env[Any, int]) -> None:
        self._inner: Any = inner
        self._over = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self._state, _ = self._inner.reset(seed=seed)  # so that a seed is gymnasium's own episode
        self._turn, self._over, self._ended, self._reward = 0, False, False, 0.0
        return Observation(self._told()), {}

    def step(self, action: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        if self._over:
            raise ResetNeeded("the episode is over, or none was begun: call reset() before step()")
        number = self.numbers.get(action, self.numbers[self.default_action])
        self._state, reward, terminated, _, _ = self._inner.step(number)
        self._turn += 1
        self._reward = float(reward)
        self._ended = bool(terminated)
        truncated = self._turn >= self.max_turns and not self._ended
        self._over = self._ended or truncated
        info = {"success": self._progression() == 1.0, "progression": self._progression()} if self._over else {}
        return Observation(self._told()), self._reward, self._ended, truncated, info

    def close(self) -> None:
        self._inner.close()

    def scripted_player(self) -> ScriptedPlayer:
        """Plays what is of most value by the game's own table."""
        best = best_actions(self._inner.P, DISCOUNT)
        names = {number: name for name, number in self.numbers.items()}
        return lambda: names[int(best[self._state])]

    @abstractmethod
    def _told(self) -> str:
        """The scene: the state in words, and what the last action led to."""

    @abstractmethod
    def _progression(self) -> float:
        """How far the episode came by its end, in [0, 1]; 1 is success."""


class FrozenLake(ToyText):
    """Cross a lake with holes in the ice. The reward is 1 on the far shore, else 0.

    Args:
        map: of gymnasium's two, "4x4" (100 turns) or "8x8" (200 turns).
        slippery: one goes where one wants one time in three, else to either side of it.
    """

    default_action = "go west"
    actions = GOING
    synonyms = GOING_SYNONYMS
    numbers = {"go west": 0, "go south": 1, "go east": 2, "go north": 3}

    def __init__(self, map: str = "4x4", slippery: bool = True) -> None:
        super().__init__(FrozenLakeEnv(map_name=choice("map", map, ("4x4", "8x8")), is_slippery=slippery))
        self.max_turns = {"4x4": 100, "8x8": 200}[map]
        self.one_level = not slippery
        self._map = [[cell.decode() for cell in row] for row in self._inner.desc]
        self._goal = len(self._map) - 1, len(self._map[0]) - 1
        ice = "You may slip sideways." if slippery else "You never slip."
        self.mission = f"Cross the ice to the far shore in the south-east corner. {ice}"

    def _told(self) -> str:
        here = divmod(int(self._state), len(self._map[0]))
        cell = self._map[here[0]][here[1]]
        if cell == "H":
            return f"You fell into a hole at {_place(here)}."
        if cell == "G":
            return "You stand on the far shore."
        things = {"F": "ice", "S": "the near shore", "G": "the far shore", "H": "a hole"}
        around = _around(here, (len(self._map), len(self._map[0])), lambda at: things[self._map[at[0]][at[1]]])
        return f"You stand at {_place(here)}. The far shore is {_way(here, self._goal)}.\n{around}"

    def _progression(self) -> float:
        return float(self._reward == 1.0)


class CliffWalking(ToyText):
    """Walk along a cliff. A step costs 1; one over the edge costs 100 and leads back to the start.

    gymnasium has no time limit; here it is 200 turns. Every episode begins alike, and nothing is left to chance.
    """

    default_action = "go north"
    max_turns = 200
    one_level = True
    actions = GOING
    synonyms = GOING_SYNONYMS
    numbers = {"go north": 0, "go east": 1, "go south": 2, "go west": 3}
    mission = "Walk to the flag at the other end of the cliff."
    shape = 4, 12
    goal = 3, 11

    def __init__(self) -> None:
        super().__init__(CliffWalkingEnv())

    def _told(self) -> str:
        here = divmod(int(self._state), self.shape[1])
        if here == self.goal:
            return "You stand at the flag."
        fell = "You fell, and are back at the start. " if self._reward == -100 else ""
        around = _around(here, self.shape, self._thing)
        return f"{fell}You stand at {_place(here)}. The flag is {_way(here, self.goal)}.\n{around}"

    def _thing(self, at: Place) -> str:
        if at == self.goal:
            return "the flag"
        return "the cliff" if self._inner._cliff[at] else "ground"

    def _progression(self) -> float:
        return float(self._ended)


class Taxi(ToyText):
    """Fetch a passenger and bring them where they want to go. A turn costs 1, a wrong stop 10; arrival pays 20.

    Progression is 0.5 while the passenger rides, 1 when they are where they wanted to be.
    """

    default_action = "go north"
    max_turns = 200
    actions = GOING | {"pick up": "let the passenger get in", "drop off": "let the passenger get out"}
    synonyms = GOING_SYNONYMS | {
        "pickup": "pick up",
        "pick up passenger": "pick up",
        "dropoff": "drop off",
        "drop off passenger": "drop off",
    }
    numbers = {"go south": 0, "go north": 1, "go east": 2, "go west": 3, "pick up": 4, "drop off": 5}
    stands = ("Red", "Green", "Yellow", "Blue")
    riding = 4

    def __init__(self) -> None:
        super().__init__(TaxiEnv())

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        begun = super().reset(seed=seed, options=options)
        self.mission = f"Bring the passenger to {self.stands[self._inner.decode(self._state)[3]]}."
        return begun

    def _told(self) -> str:
        row, column, passenger, wanted = (int(part) for part in self._inner.decode(self._state))
        here, goal = (row, column), self._inner.locs[wanted]
        if self._reward == 20:
            return f"The passenger gets out at {self.stands[wanted]}, as wanted."
        said = "That was no place for it. " if self._reward == -10 else ""
        if passenger == self.riding:
            who = f"The passenger rides with you. {self.stands[wanted]} is {_way(here, goal)}"
        else:
            stand = self._inner.locs[passenger]
            who = f"The passenger waits at {self.stands[passenger]}, {_way(here, stand)}"
        moves = self._inner.P[self._state]
        ways = [f"{way}: {'road' if moves[self.numbers[f'go {way}']][0][1] != self._state else 'wall'}" for way in WAYS]
        return f"{said}Your taxi is at {_place(here)}. {who}.\n{_listed(ways)}"

    def _progression(self) -> float:
        if self._reward == 20:
            return 1.0
        return 0.5 if self._inner.decode(self._state)[2] == self.riding else 0.0


class Blackjack(ToyText):
    """One hand against a dealer who draws to 17. The reward is 1, 0 or -1; progression 1, 0.5 or 0."""

    default_action = "stick"
    max_turns = 20
    """Nobody draws more: the twentieth card after the first two is one too many even if all are aces."""
    actions = {"hit": "take another card", "stick": "take no more cards; the dealer plays"}
    synonyms = {"draw": "hit", "card": "hit", "hit me": "hit", "stand": "stick", "stay": "stick", "stop": "stick"}
    numbers = {"stick": 0, "hit": 1}
    mission = "Come closer to 21 than the dealer, and not over it."

    def __init__(self) -> None:
        super().__init__(BlackjackEnv())

    def _told(self) -> str:
        count, shown, soft = self._state
        ace = ", an ace among them counted as 11" if soft else ""
        hand = f"Your cards: {_cards(self._inner.player)}. They count {int(count)}{ace}."
        if not self._ended:
            return f"{hand} The dealer shows {_card(int(shown))}."
        if count > 21:
            return f"{hand} That is too much: you lose."
        result = {1.0: "You win.", 0.0: "It is a draw.", -1.0: "You lose."}[self._reward]
        return f"{hand} The dealer's cards: {_cards(self._inner.dealer)}. {result}"

    def _progression(self) -> float:
        return (self._reward + 1) / 2

    def scripted_player(self) -> ScriptedPlayer:
        """Hits below 17 like the dealer, on a hand with an ace as 11 below 18, and less against a weak card."""

        def play() -> str:
            count, shown, soft = self._state
            enough = 18 if soft else 13 if 2 <= shown <= 6 else 17
            return "hit" if count < enough else "stick"

        return play


def _place(at: Place) -> str:
    return f"row {at[0] + 1}, column {at[1] + 1}"


def _way(here: Place, there: Place) -> str:
    """How one place lies from another: "2 steps south and 1 step east"."""
    south, east = int(there[0]) - here[0], int(there[1]) - here[1]
    parts = [
        f"{abs(n)} step{'s' * (abs(n) != 1)} {forth if n > 0 else back}"
        for n, forth, back in ((south, "south", "north"), (east, "east", "west"))
        if n
    ]
    return " and ".join(parts) or "right here"


def _around(here: Place, shape: Place, thing: Callable[[Place], str]) -> str:
    """What lies next to a place on a map of this shape, by its four sides."""
    told = []
    for way in WAYS:
        row, column = here[0] + STEPS[way][0], here[1] + STEPS[way][1]
        inside = 0 <= row < shape[0] and 0 <= column < shape[1]
        told.append(f"{way}: {thing((row, column)) if inside else 'the edge'}")
    return _listed(told)


def _listed(ways: list[str]) -> str:
    return ", ".join(ways).capitalize() + "."


def _card(value: int) -> str:
    return "an ace" if value == 1 else f"a card of {value}"


def _cards(hand: list[Any]) -> str:
    return ", ".join("ace" if card == 1 else str(int(card)) for card in hand)


OTHERS: dict[str, Callable[[], ToyText]] = {"taxi": Taxi, "blackjack": Blackjack, "cliffwalking": CliffWalking}


def make(task: str, map: str | None = None, slippery: bool | None = None) -> ToyText:
    """The game `task`; `map` and `slippery` are FrozenLake's alone, None is its default."""
    given = own_options(f"toytext/{task}", ("map", "slippery") * (task == "frozenlake"), map=map, slippery=slippery)
    if task != "frozenlake":
        return OTHERS[task]()
    if slippery is not None:
        switch("slippery", slippery)
    return FrozenLake(**given)


SPEC = GameSpec(
    name="toytext",
    description="gymnasium's FrozenLake, Taxi, Blackjack and CliffWalking, told in words.",
    make=make,
    tasks=("frozenlake", *OTHERS),
)
