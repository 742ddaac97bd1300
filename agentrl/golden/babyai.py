"""BabyAI's recordings: agent, what it carries, and every object on the map."""

from minigrid.core.world_object import Door

from agentrl import envs
from agentrl.envs.babyai import BabyAI
from agentrl.golden.recording import Header, Row
from agentrl.golden.replay import Replay, check_options, seed_of

PREFIX = "BabyAI-MixedTrainLocal-v0/"
"""The original's name of the level that holds its five tasks."""


class BabyAIReplay(Replay):
    game: BabyAI

    def __init__(self, header: Header) -> None:
        super().__init__()
        self.seed = seed_of(header.seed)
        options = header.options
        if options is None:
            options = {**(header.config or {}), "compat": "balrog"}
            check_options(header.config or {}, ["num_dists"])
        game = envs.make(f"babyai/{header.task.removeprefix(PREFIX)}", **options)
        assert isinstance(game, BabyAI)
        self.game = game

    def state(self) -> Row:
        level = self.game.level
        carried = level.carrying
        things = []
        for y in range(level.height):
            for x in range(level.width):
                cell = level.grid.get(x, y)
                if cell is None or cell.type == "wall":
                    continue
                door = []
                if isinstance(cell, Door):
                    door = ["open" if cell.is_open else "locked" if cell.is_locked else "closed"]
                things.append([x, y, cell.type, cell.color, *door])
        return {
            "agent_pos": [int(i) for i in level.agent_pos],
            "agent_dir": int(level.agent_dir),
            "carrying": None if carried is None else [carried.type, carried.color],
            "objects": things,
            "step_count": level.step_count,
        }

    def facts(self) -> Row:
        grid = self.game.level.grid
        cells = [(x, y, grid.get(x, y)) for y in range(grid.height) for x in range(grid.width)]
        walls = [[x, y] for x, y, cell in cells if cell is not None and cell.type == "wall"]
        return {**super().facts(), "width": grid.width, "height": grid.height, "walls": walls}

    def stats(self, last: Row) -> Row:
        return {"mission": self.game.mission}
