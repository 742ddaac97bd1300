"""The levels that BabyAI is played on: the five tasks of BALROG (arXiv 2411.13543), and all of minigrid's.

The five are written so that a seed draws the very level that the original benchmark draws from it: the order in which
random numbers are consumed is part of their definition.
"""

import gymnasium
import minigrid  # noqa: F401  registers its levels with gymnasium
from minigrid.core.roomgrid import RoomGrid
from minigrid.core.world_object import WorldObj
from minigrid.envs.babyai.core import roomgrid_level
from minigrid.envs.babyai.core.roomgrid_level import RoomGridLevel
from minigrid.envs.babyai.core.verifier import (
    AfterInstr,
    BeforeInstr,
    GoToInstr,
    Instr,
    ObjDesc,
    OpenInstr,
    PickupInstr,
    PutNextInstr,
)

# Level generators report every draw they reject on stdout; a name in their own module shadows the built-in print.
vars(roomgrid_level)["print"] = lambda *values: None

TASKS = ("goto", "pickup", "open", "putnext", "pick_up_seq_go_to")
MINIGRID_LEVELS = tuple(sorted(name for name in gymnasium.registry if name.startswith("BabyAI-")))

DOOR_COLOURS = ("yellow", "green", "blue", "purple")
NEVER_MENTIONED = {("yellow", "box"), ("red", "key"), ("red", "door"), ("green", "ball"), ("grey", "door")}


class LocalLevel(RoomGridLevel):
    """One of `TASKS`: a room of 6x6 cells, or two with a locked door between them for `open`.

    `num_dists` objects are added to those that the mission needs; in `open`, to the room where the agent starts.
    """

    def __init__(self, task: str, num_dists: int) -> None:
        self.task = task
        self.num_dists = num_dists
        super().__init__(room_size=8, num_rows=1, num_cols=2 if task == "open" else 1)

    def gen_mission(self) -> None:
        """Draw until every object can be reached and the mission mentions no forbidden one."""
        while True:
            # Rooms are laid again before each draw, the first included: that consumes the position of the door.
            RoomGrid._gen_grid(self, self.width, self.height)
            described = self._open_mission() if self.task == "open" else self._room_mission()
            allowed = NEVER_MENTIONED.isdisjoint((thing.color, thing.type) for thing in described)
            if allowed and self.check_objs_reachable(raise_exc=False):
                return

    def _room_mission(self) -> list[ObjDesc]:
        self.place_agent()
        needed = 1 if self.task in ("goto", "pickup") else 2
        objects = self.add_distractors(num_distractors=self.num_dists + needed, all_unique=False)
        first = self._rand_elem(objects)
        described = [ObjDesc(first.type, first.color)]
        if needed == 2:
            second = self._second_object(objects, first)
            described.append(ObjDesc(second.type, second.color))
        self.instrs = self._instruction(described)
        return described

    def _second_object(self, objects: list[WorldObj], first: WorldObj) -> WorldObj:
        """Any of the objects; not like the first, unless there are several like it (it may then be the same one)."""
        alike = [thing for thing in objects if (thing.type, thing.color) == (first.type, first.color)]
        while True:
            second = self._rand_elem(objects)
            if len(alike) > 1 or second is not first:
                return second

    def _instruction(self, described: list[ObjDesc]) -> Instr:
        if self.task == "goto":
            return GoToInstr(*described)
        if self.task == "pickup":
            return PickupInstr(*described)
        if self.task == "putnext":
            return PutNextInstr(*described)
        pick_up, go_to = PickupInstr(described[0]), GoToInstr(described[1])
        return BeforeInstr(pick_up, go_to) if self._rand_bool() else AfterInstr(go_to, pick_up)

    def _open_mission(self) -> list[ObjDesc]:
        colour = self._rand_elem(DOOR_COLOURS)
        locked = self._add_locked_room(colour)
        self.add_distractors(1 - locked, 0, num_distractors=self.num_dists, all_unique=False)
        self.place_agent()
        while self.room_from_pos(*self.agent_pos) is self.get_room(locked, 0):
            self.place_agent()
        door = ObjDesc("door", self._rand_elem([None, colour]))
        self.instrs = OpenInstr(door)
        return [door]

    def _add_locked_room(self, colour: str) -> int:
        """Lock one of the two rooms and put the key into the other; returns the locked room's column."""
        while True:
            locked = self._rand_int(0, 2)
            side = self._rand_int(0, 4)
            if self.get_room(locked, 0).neighbors[side] is not None:
                break
        self.add_door(locked, 0, side, colour, locked=True)
        while self._rand_int(0, 2) == locked:
            pass
        self.add_object(1 - locked, 0, "key", colour)
        return locked


def make_level(task: str, num_dists: int) -> RoomGridLevel:
    """The level of a task, or minigrid's level of that id (which sets its own number of distractors)."""
    if task in TASKS:
        return LocalLevel(task, num_dists)
    level = gymnasium.make(task, disable_env_checker=True).unwrapped
    assert isinstance(level, RoomGridLevel)
    return level
