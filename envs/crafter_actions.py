"""Crafter's 17 actions: the package's names, BALROG's, a line of help for each, and what else models call them."""

from itertools import product

ACTIONS = {
    "Noop": ("noop", "do nothing"),
    "Move West": ("move_left", "face west and take a step, if the cell is free"),
    "Move East": ("move_right", "face east and take a step, if the cell is free"),
    "Move North": ("move_up", "face north and take a step, if the cell is free"),
    "Move South": ("move_down", "face south and take a step, if the cell is free"),
    "Do": ("do", "act on what you face: gather it, drink it, eat it, attack it"),
    "Sleep": ("sleep", "fall asleep until your energy is full or something hurts you"),
    "Place Stone": ("place_stone", "put a stone in front of you"),
    "Place Table": ("place_table", "put a table in front of you, made of wood"),
    "Place Furnace": ("place_furnace", "put a furnace in front of you, made of stone"),
    "Place Plant": ("place_plant", "plant a sapling in the grass in front of you"),
    "Make Wood Pickaxe": ("make_wood_pickaxe", "needs a table nearby and wood"),
    "Make Stone Pickaxe": ("make_stone_pickaxe", "needs a table nearby, wood and stone"),
    "Make Iron Pickaxe": ("make_iron_pickaxe", "needs a table and a furnace nearby, wood, coal and iron"),
    "Make Wood Sword": ("make_wood_sword", "needs a table nearby and wood"),
    "Make Stone Sword": ("make_stone_sword", "needs a table nearby, wood and stone"),
    "Make Iron Sword": ("make_iron_sword", "needs a table and a furnace nearby, wood, coal and iron"),
}
"""In the order of the package; each with the package's own name and its help."""

_SPELLINGS = (
    ("Noop", "no-op, no op, do nothing, wait, idle, stay", ""),
    ("Sleep", "go to sleep, fall asleep", ""),
    ("Do", "collect, gather, get, harvest", "wood, stone, coal, iron, diamond, sapling, water, drink"),
    ("Do", "mine, dig", "stone, coal, iron, diamond"),
    ("Do", "chop, chop down, cut, cut down", "tree, wood"),
    ("Do", "attack, fight, hit, kill, defeat", "zombie, skeleton, cow"),
    ("Do", "eat", "cow, plant"),
    ("Do", "drink", "water"),
    ("Do", "collect, gather, harvest, mine, attack, fight, hit, eat, drink, interact", ""),
    ("Place Stone", "put, put down", "stone"),
    ("Place Table", "place, put, put down, build, make, craft", "table, crafting table"),
    ("Place Furnace", "place, put, put down, build, make, craft", "furnace"),
    ("Place Plant", "place, plant, put", "sapling"),
    ("Make Wood Pickaxe", "make, craft, build", "wood pickaxe, wooden pickaxe"),
    ("Make Stone Pickaxe", "make, craft, build", "stone pickaxe"),
    ("Make Iron Pickaxe", "make, craft, build", "iron pickaxe"),
    ("Make Wood Sword", "make, craft, build", "wood sword, wooden sword"),
    ("Make Stone Sword", "make, craft, build", "stone sword"),
    ("Make Iron Sword", "make, craft, build", "iron sword"),
)
"""Action, verbs, and what they act on; any verb goes with any thing."""


def _synonyms() -> dict[str, str]:
    """Nothing that may mean two of the actions: "left" (of the way one faces?), "rest", "north-west" are not here."""
    found = {native.replace("_", blank): name for name, (native, _) in ACTIONS.items() for blank in "_ "}
    for action, verbs, things in _SPELLINGS:
        found |= {
            " ".join(filter(None, words)): action
            for words in product(verbs.split(", "), ("", "a", "an", "the") if things else ("",), things.split(", "))
        }
    for verb, side in product(("move", "go", "walk", "step", ""), ("west", "east", "north", "south")):
        steps = ("", "1 step", *(f"{count} steps" for count in range(2, 10)))
        found |= {" ".join(filter(None, (verb, side, far))): f"Move {side.title()}" for far in steps}
    own = {name.lower() for name in ACTIONS}
    return {spelling: name for spelling, name in found.items() if spelling not in own}


SYNONYMS = _synonyms()
