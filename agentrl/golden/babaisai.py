"""BabaIsAI's recordings: the rules, YOU's place, and every stack of the map."""

from agentrl import envs
from agentrl.envs.babaisai import BabaIsAI
from agentrl.envs.babaisai_rules import PROPERTIES
from agentrl.golden.recording import Header, Row
from agentrl.golden.replay import Replay, check_options, seed_of


class BabaIsAIReplay(Replay):
    """The original reports every limit as `terminated`: of its recordings whether either flag is set is compared."""

    game: BabaIsAI

    def __init__(self, header: Header) -> None:
        super().__init__()
        self.splits_flags = header.options is not None
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

    def comparable(self, state: Row) -> Row:
        """Without rules such as BALL IS KEY, which texts leave out, and without the agent's place where several are."""
        rules = [rule for rule in state["rules"] if rule.rpartition(" ")[2] in PROPERTIES]
        several = sum(rule.endswith(" you") for rule in rules) > 1
        unsure = ("agent_pos", "agent_dir") if several else ()
        return {**{name: value for name, value in state.items() if name not in unsure}, "rules": rules}

    def facts(self) -> Row:
        level = self.game.level
        return {**super().facts(), "width": level.world.width, "height": level.world.height, "target_plan": level.plan}

    def stats(self, last: Row) -> Row:
        return {"target_plan": self.game.level.plan}
