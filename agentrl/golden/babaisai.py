"""BabaIsAI's recordings: the rules, YOU's place, and every stack of the map."""

from agentrl import envs
from agentrl.envs.babaisai import BabaIsAI
from agentrl.golden.recording import Header, Row
from agentrl.golden.replay import Replay, check_options, seed_of


class BabaIsAIReplay(Replay):
    """The original reports every limit as `terminated`: whether either flag is set is compared, not which."""

    game: BabaIsAI
    splits_flags = False

    def __init__(self, header: Header) -> None:
        super().__init__()
        self.seed = seed_of(header.seed)
        options = header.options
        if options is None:
            options = {"compat": "balrog"}
            # A wrapper's rules for another level's maker, which ignores them.
            check_options(header.config or {}, ["add_ruleset"])
        game = envs.make(f"babaisai/{header.task}", **options)
        assert isinstance(game, BabaIsAI)
        self.game = game

    def state(self) -> Row:
        game = self.game
        return {
            "agent_pos": game.agent_pos,
            "agent_dir": game.agent_dir,
            "step_count": game.turn,
            "rules": game.rules(),
            "grid": game.grid(),
        }

    def facts(self) -> Row:
        level = self.game.level
        return {**super().facts(), "width": level.world.width, "height": level.world.height, "target_plan": level.plan}

    def stats(self, last: Row) -> Row:
        return {"target_plan": self.game.level.plan}
