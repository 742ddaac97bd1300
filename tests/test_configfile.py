"""Recipes, overrides, and one line for each mistake."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agentrl.config import Config
from agentrl.configfile import describe, dump_config, field_names, load_config, make_config, nearest, split_arguments
from agentrl.errors import UserError
from agentrl.plainyaml import dump_yaml, load_yaml

RECIPES = sorted((Path(__file__).parent.parent / "experiments").glob("*.yaml"))
MINIMAL = "name: test\ngame:\n  id: babyai/goto\n"


@pytest.fixture
def recipe(tmp_path):
    def write(text: str = "") -> Path:
        path = tmp_path / "recipe.yaml"
        path.write_text(MINIMAL + text)
        return path

    return write


def line_of(recipe: Path, *overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        load_config(recipe, overrides)
    line = str(caught.value)
    assert "\n" not in line
    return line


def test_defaults_and_file(recipe):
    config = load_config(recipe("seed: 3\noptimizer:\n  lr: 1e-6\n"))
    assert config == Config(name="test", game={"id": "babyai/goto"}, seed=3, optimizer={"lr": 1e-6})
    assert isinstance(config.optimizer.lr, float)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_round_trips(path):
    config = load_config(path)
    assert config.name == path.stem
    assert make_config(load_yaml(dump_config(config))) == config
    assert make_config(load_yaml(describe(config))) == config


def test_there_are_recipes():
    assert {"quickstart", "babyai_tiny", "babyai_qwen2.5_3b"} <= {path.stem for path in RECIPES}


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["--optimizer.lr=1e-4"], {"optimizer": {"lr": 1e-4}}),
        (["--optimizer.lr", "1"], {"optimizer": {"lr": 1.0}}),
        (["--optimizer.betas=[0.9, 0.99]"], {"optimizer": {"betas": (0.9, 0.99)}}),
        (["--optimizer={lr: 3e-4}"], {"optimizer": {"lr": 3e-4}}),
        (["--model", "some/dir"], {"model": {"path": "some/dir"}}),
        (["--model={dtype: bfloat16}"], {"model": {"dtype": "bfloat16"}}),
        (
            ["--game", "other/task", "--game.options.reward=binary"],
            {"game": {"id": "other/task", "options": {"reward": "binary"}}},
        ),
        (["--game.options.size=5"], {"game": {"id": "babyai/goto", "options": {"size": 5}}}),
        (["--algorithm.dual_clip=null"], {"algorithm": {"dual_clip": None}}),
        (["--model.precision=no"], {"model": {"precision": "no"}}),
        (["--evaluation.greedy", "false"], {"evaluation": {"greedy": False}}),
        (["--seed=1", "--seed=2"], {"seed": 2}),
        (["--critic_warmup.explained_variance", "-1"], {"critic_warmup": {"explained_variance": -1.0}}),
    ],
    ids=" ".join,
)
def test_overrides(recipe, overrides, expected):
    assert load_config(recipe(), overrides) == Config(**{"name": "test", "game": {"id": "babyai/goto"}} | expected)


def test_an_override_keeps_the_rest_of_its_section(recipe):
    config = load_config(recipe("optimizer:\n  lr: 1e-3\n  eps: 1e-5\n"), ["--optimizer.lr=2e-3"])
    assert (config.optimizer.lr, config.optimizer.eps) == (2e-3, 1e-5)


def test_an_override_does_not_reach_through_an_alias(recipe):
    path = recipe("  options: &shared {a: 1}\nmodel:\n  path: x\n")
    assert load_config(path, ["--game.options.a=2"]).game.options == {"a": 2}
    tree = {"a": 1}
    make_config({"name": "test", "game": {"id": "x", "options": tree}}, ["--game.options.a=2"])
    assert tree == {"a": 1}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("optimizer:\n  lrr: 0.1\n", ["optimizer.lrr = 0.1", "no such field", "did you mean optimizer.lr?"]),
        ("algorithm:\n  lr: 0.1\n", ["algorithm.lr = 0.1", "optimizer.lr"]),
        ("optimzer:\n  lr: 0.1\n", ["optimzer = ", "did you mean optimizer?"]),
        ("zzzz: 1\n", ["zzzz = 1", "known: name, output_dir, seed"]),
        ('seed: "3"\n', ['seed = "3"', "a whole number", "remove the quotes"]),
        ("seed: true\n", ["seed = true", "a whole number"]),
        ("seed: 3.5\n", ["seed = 3.5", "a whole number"]),
        ("seed: -1\n", ["seed = -1", "greater than or equal to 0"]),
        ("seed:\n", ["seed = null", "a whole number"]),
        ("output_dir: 3\n", ["output_dir = 3", "text", "put it in quotes"]),
        ("optimizer:\n  lr: fast\n", ['optimizer.lr = "fast"', "expected a number"]),
        ("optimizer:\n  lr: .nan\n", ["optimizer.lr = NaN: expected a finite number"]),
        ("optimizer:\n  betas: [0.9]\n", ["optimizer.betas.1", "one more value"]),
        ("optimizer:\n  betas: [0.9, x]\n", ['optimizer.betas.1 = "x"', "expected a number"]),
        ("optimizer: 3\n", ["optimizer = 3", "a section of fields"]),
        ("optimizer:\n", ["optimizer = null", "a section of fields"]),
        ("evaluation:\n  greedy: yes\n", ['evaluation.greedy = "yes"', "true or false"]),
        ("evaluation:\n  greedy: 1\n", ["evaluation.greedy = 1", "true or false"]),
        ("model:\n  dtype: bfloat\n", ['model.dtype = "bfloat"', "float32 or bfloat16", "did you mean bfloat16?"]),
        ("model:\n  path: 3\n", ["model.path = 3", "text or null", "put it in quotes"]),
        (
            "algorithm:\n  dual_clip: none\n",
            ['algorithm.dual_clip = "none"', "a number or null", "write null for none"],
        ),
        ("algorithm:\n  dual_clip: 0.5\n", ["algorithm.dual_clip = 0.5", "greater than 1"]),
        ("algorithm:\n  is_correction_cap: 0.9\n", ["algorithm.is_correction_cap = 0.9", "or equal to 1"]),
        ("optimizer:\n  betas: [0.9, 1]\n", ["optimizer.betas.1 = 1", "less than 1"]),
        ("optimizer:\n  eps: .inf\n", ["optimizer.eps = Infinity", "finite"]),
        ("engine:\n  temperature: .inf\n", ["engine.temperature = Infinity", "finite"]),
        ("engine:\n  temperature: 1e-300\n", ["engine.temperature = 1e-300", "or equal to 0.001"]),
        ("seed: 4294967296\n", ["seed = 4294967296", "less than 4294967296"]),
        ("model: {new: {vocab_size: 4294967295}}\n", ["model.new.vocab_size = 4294967295", "or equal to 262144"]),
        ("model: {new: {hidden_size: 640000}}\n", ["model.new.hidden_size = 640000", "or equal to 65536"]),
        ("prompt:\n  history: 100000000000000000000\n", ["prompt.history = 1000", "less than"]),
        ("torch_threads: 100000\n", ["torch_threads = 100000", "1024"]),
        ('output_dir: "a\\0b"\n', ["output_dir = ", "text of the form"]),
        ("prompt:\n  keep: newest\n", ['prompt.keep = "newest"', "newest:K"]),
        ("tracking:\n  backends: wandb\n", ['tracking.backends = "wandb"', "a list"]),
        ("tracking:\n  backends: [wandbb]\n", ['tracking.backends.0 = "wandbb"', "did you mean wandb?"]),
        ("engine:\n  top_p: 0.9\n", ["engine.top_p = 0.9: "]),
        ("batch:\n  num_envs: 1\n  turns_per_env: 2\n", ["algorithm.minibatches = 4", "batch.num_envs"]),
        ("seed: a\nzzzz: 1\noptimizer: 3\n", ['seed = "a"', "(and 2 more)"]),
        ("seed: 1\nseed: 2\n", ["line 5", "seed is given twice"]),
        ("1: 2\n", ["line 4", "a name must be text", "quotes"]),
        ("seed: [1\n", ["not YAML", "line 5"]),
        ("seed: !!python/object:os.system 1\n", ["not YAML", "python/object"]),
        ("seed: &a [*a]\n", ["recipe.yaml", "Circular"]),
        ("seed: \x01\n", ["not YAML"]),
        ("x: " + "[" * 2000 + "]" * 2000 + "\n", ["recipe.yaml"]),
        ('"a\\nb": "c\\nd"\n', ["no such field"]),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_mistakes_in_the_file(recipe, text, parts):
    path = recipe(text)
    line = line_of(path)
    assert line.startswith(str(path))
    for part in parts:
        assert part in line


@pytest.mark.parametrize(
    ("overrides", "parts"),
    [
        (["--algorithm.lr=4"], ["algorithm.lr = 4", "did you mean optimizer.lr"]),
        (["--lr=4"], ["lr = 4", "optimizer.lr or imitation.lr"]),
        (["--model.hidden_size=8"], ["did you mean model.new.hidden_size?"]),
        (["--optimizer.lr"], ["--optimizer.lr: the value is missing"]),
        (["--optimizer.lr", "--seed=1"], ["--optimizer.lr: the value is missing"]),
        (["--optimizer.lr=fast"], ['optimizer.lr = "fast"', "expected a number"]),
        (["--optimizer.betas=[1,"], ['optimizer.betas = "[1,"', "not YAML"]),
        (["--seed='3'"], ['seed = "3"', "remove the quotes"]),
        (["--name=3"], ["name = 3", "put it in quotes"]),
        (["--name=a b"], ['name = "a b"', "text of the form"]),
        (["--game.id.x=3"], ["game.id.x = 3", "no such field"]),
        (["--game.options=3"], ["game.options = 3", "names with values"]),
        (["--game={}"], ["game.id is missing", "agentrl games"]),
        (["loose"], ['"loose"', "--section.field=value"]),
    ],
    ids=lambda value: value[0][:30],
)
def test_mistakes_on_the_command_line(recipe, overrides, parts):
    line = line_of(recipe(), *overrides)
    assert line.startswith("command line: ")
    for part in parts:
        assert part in line


def test_required_fields(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("seed: 1\n")
    assert "name is missing" in line_of(path)
    path.write_text("name: a\n")
    assert "game.id is missing" in line_of(path)
    for text in ("", "- 1\n", "hello\n"):
        path.write_text(text)
        assert "a recipe is a mapping of fields" in line_of(path)


def test_files_that_cannot_be_read(recipe, tmp_path):
    recipe()
    assert f"no such file; did you mean {tmp_path / 'recipe.yaml'}?" in line_of(tmp_path / "recipe.yml")
    assert f"no such file; did you mean {tmp_path / 'recipe.yaml'}?" in line_of(tmp_path / "recipe")
    assert line_of(tmp_path / "nowhere" / "zzz.yaml").endswith("no such file")
    assert "cannot be read" in line_of(tmp_path)
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00\x01\x80")
    assert "not YAML" in line_of(tmp_path / "binary.yaml")


def test_a_mistake_of_the_file_is_not_hidden_by_an_override(recipe):
    assert "optimizer = 3" in line_of(recipe("optimizer: 3\n"), "--optimizer.lr=1")


def test_describe_counts(recipe):
    config = load_config(
        recipe(
            "batch: {num_envs: 3, turns_per_env: 5, updates: 7}\n"
            "algorithm: {epochs: 2, minibatches: 4}\n"
            "critic_warmup: {max_updates: 2}\n"
            "prompt: {max_prompt_tokens: 100}\n"
            "engine: {max_reply_tokens: 11}\n"
            "evaluation: {episodes: 9, greedy: false}\n"
            "imitation: {episodes: 6}\n"
        )
    )
    facts = dict(line[2:].split("  ", 1) for line in describe(config).splitlines() if line.startswith("# "))
    assert {name: value.strip() for name, value in facts.items()} == {
        "turns per update": "15",
        "optimizer steps per update": "8",
        "optimizer steps of the policy": "56",
        "critic warm-up updates, at most": "2",
        "critic warm-up turns, at most": "30",
        "turns in all, at most": "135",
        "prompt + reply tokens per update, at most": "1,665",
        "imitation episodes": "6",
        "games run in": "the trainer's own process",
        "episodes per evaluation": "9 each of sampled, random",
    }


def test_split_arguments():
    arguments = ["--a.b", "-1", "run.yaml", "--c=--d", "-5"]
    assert split_arguments(arguments) == (["run.yaml", "-5"], ["--a.b=-1", "--c=--d"])


def test_every_field_finds_itself_and_survives_one_typo():
    names = field_names()
    for name in names:
        assert name in nearest(name, names)
    for name in ("optimizer.max_grad_norm", "algorithm.entropy_coef", "engine.max_reply_tokens"):
        assert nearest(name[:-2] + name[-1], names)[0] == name


def test_every_field_can_be_overridden_by_its_own_value():
    config = Config(name="test", game={"id": "x"})
    for name in field_names():
        value = config
        for part in name.split("."):
            value = getattr(value, part)
        tree = value.model_dump(mode="json") if hasattr(value, "model_dump") else value
        text = dump_yaml(list(tree) if isinstance(tree, tuple) else tree).removesuffix("...\n").strip()
        assert make_config({"name": "test", "game": {"id": "x"}}, [f"--{name}={text}"]) == config, name


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.sampled_from(
        ["no", "yes", "1e-6", "1e3", "0x1F", "1_000", "12:30", "2024-01-01", "~", "null", ".inf", "True", "=", "<<"]
    ),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=10,
)


@given(plain)
def test_yaml_round_trip(tree):
    assert load_yaml(dump_yaml(tree)) == tree


@given(st.text())
def test_dumped_text_stays_text_for_plain_pyyaml(text):
    assert yaml.safe_load(dump_yaml([text])) == [text]


@given(options=st.dictionaries(st.text(), plain, max_size=3), lr=st.floats(0, 1e3), seed=st.integers(0, 2**32 - 1))
def test_config_round_trip(options, lr, seed):
    config = Config(name="test", game={"id": "x", "options": options}, optimizer={"lr": lr}, seed=seed)
    assert make_config(load_yaml(dump_config(config))) == config


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-6", 1e-6),
        ("1E3", 1e3),
        ("-2.5e+3", -2.5e3),
        (".5", 0.5),
        ("1.", 1.0),
        ("-.inf", float("-inf")),
        ("10_000", 10_000),
        ("010", 10),
        ("no", "no"),
        ("on", "on"),
        ("1:30", "1:30"),
        ("true", True),
        ("~", None),
        ("", None),
        ("2024-01-01",) * 2,
        ("e3", "e3"),
        ("1e", "1e"),
        ("+", "+"),
        (".", "."),
        ("0x10", "0x10"),
    ],
)
def test_core_schema(text, value):
    found = load_yaml(text)
    assert found == value
    assert type(found) is type(value)
