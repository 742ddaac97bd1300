"""Models made here: tokenizer, weights and folder; and the real Qwen2.5 tokenizer that other tests lean on."""

import inspect
import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import tiktoken
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from models import SHAPE, TEXTS
from qwen_tokenizer import ADDED, DEFAULT_SYSTEM, SPECIAL, qwen_ranks
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2Tokenizer

from agentrl import envs, new_model
from agentrl.config import NewModelConfig
from agentrl.envs import GameError, GameSpec, Observation, TextEnv
from agentrl.errors import UserError

ACTIONS = ("turn left", "turn right", "go forward", "pick up", "drop", "toggle")
DIALOGUE = [
    {"role": "system", "content": "Play."},
    {"role": "user", "content": "a red ball 1 step left"},
    {"role": "assistant", "content": "turn left"},
    {"role": "user", "content": "a red ball 1 step forward"},
]


class Corridor(TextEnv):
    """Walk to the lamp; every other turn only `walk` is legal."""

    actions: dict[str, str] | None = {"walk": "one step on", "wait": "stay"}
    default_action = "wait"
    max_turns = 9
    mission = "reach the lamp"
    made: list["Corridor"] = []

    def __init__(self, free_text: bool = False, endless: bool = False) -> None:
        self.actions = None if free_text else Corridor.actions
        self.endless = endless
        self.closed = False
        self.played: list[str] = []
        self.seeds: list[int | None] = []
        Corridor.made.append(self)

    def _seen(self) -> Observation:
        return Observation(f"lamp {len(self.played) % 7} steps on", "tired" if len(self.played) % 2 else "")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.seeds.append(seed)
        return self._seen(), {}

    def step(self, action: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        self.played.append(action)
        over = not self.endless and len(self.played) % 6 == 0
        return (
            self._seen(),
            0.0,
            over,
            False,
            {"legal_actions": ["walk"]} if self.actions and len(self.played) % 2 else {},
        )

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def corridor(monkeypatch: pytest.MonkeyPatch) -> list[Corridor]:
    monkeypatch.setattr("agentrl.envs.registry._registered", {})
    envs.register(GameSpec("corridor", "a corridor", lambda task, **options: Corridor(**options)))
    Corridor.made = []
    return Corridor.made


@pytest.fixture(scope="module")
def tokenizer() -> Qwen2Tokenizer:
    """The one that `reloaded` was saved from."""
    return new_model.train_tokenizer(TEXTS * 10, SHAPE.vocab_size)


@pytest.fixture(scope="module")
def reloaded(tiny_model_dir: Path) -> Any:
    return AutoTokenizer.from_pretrained(tiny_model_dir)


# Texts of random play


def test_texts_are_the_prompts_and_the_legal_replies(corridor: list[Corridor]) -> None:
    texts = new_model.game_texts("corridor", {}, 2, 0)
    (game,) = corridor
    assert len(game.played) == 12
    assert game.closed
    assert texts[:3] == [new_model.ROLES, "lamp 0 steps on\nreach the lamp", "walk\nwait"]
    assert texts.count("walk") >= 6
    assert "lamp 1 steps on\ntired\nreach the lamp" in texts
    assert set(game.played[1::2]) == {"walk"}, "narrowed turns play a legal action"
    assert set(game.played[::2]) == {"walk", "wait"}
    assert len(set(game.seeds)) == 2


def test_texts_follow_seed_and_options(corridor: list[Corridor]) -> None:
    first, again, other = (new_model.game_texts("corridor", {}, 3, seed) for seed in (1, 1, 2))
    assert first == again != other
    assert corridor[0].played == corridor[1].played != corridor[2].played
    assert corridor[0].seeds != corridor[2].seeds
    new_model.game_texts("corridor", {"free_text": True}, 1, 0)
    assert corridor[-1].played == ["wait"] * 6, "free text is played by the default action"


def test_texts_hold_the_words_of_a_style(corridor: list[Corridor]) -> None:
    texts = "\n".join(new_model.game_texts("corridor", {}, 1, 0, style="cot"))
    assert "one step on" in texts
    assert "ACTION: walk" in texts


def test_a_game_that_never_ends_is_left_at_its_time_limit(corridor: list[Corridor]) -> None:
    new_model.game_texts("corridor", {"endless": True}, 2, 0)
    assert len(corridor[0].played) == 2 * Corridor.max_turns


# Tokenizer


def test_special_ids_and_vocabulary(tokenizer: Qwen2Tokenizer) -> None:
    assert tokenizer.convert_tokens_to_ids(["<|endoftext|>", "<|im_start|>", "<|im_end|>"]) == [0, 1, 2]
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id) == (0, 2)
    assert 259 < len(tokenizer) <= SHAPE.vocab_size
    assert len(new_model.train_tokenizer(TEXTS * 10, 300)) == 300


@pytest.mark.parametrize("action", ACTIONS)
def test_words_of_actions_are_single_tokens(tokenizer: Qwen2Tokenizer, action: str) -> None:
    assert len(tokenizer.encode(action)) == len(action.split())
    assert tokenizer.decode(tokenizer.encode(action)) == action


def test_same_texts_same_files(tokenizer: Qwen2Tokenizer, tmp_path: Path) -> None:
    tokenizer.save_pretrained(tmp_path / "a")
    new_model.train_tokenizer(iter(TEXTS * 10), SHAPE.vocab_size).save_pretrained(tmp_path / "b")
    files = sorted(file.name for file in (tmp_path / "a").iterdir())
    assert "tokenizer.json" in files
    assert [(tmp_path / "a" / name).read_bytes() for name in files] == [
        (tmp_path / "b" / name).read_bytes() for name in files
    ]


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_any_text_encodes(tokenizer: Qwen2Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == unicodedata.normalize("NFC", text)


def test_every_byte_is_in_the_alphabet(tokenizer: Qwen2Tokenizer) -> None:
    raw = "".join(chr(code) for code in range(0x300))
    assert tokenizer.decode(tokenizer.encode(raw)) == raw
    assert len(tokenizer.encode("\N{GRINNING FACE}")) == 4


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(" ".join(TEXTS).split()), max_size=20).map(" ".join)))
def test_auto_tokenizer_gives_the_same_ids(tokenizer: Qwen2Tokenizer, reloaded: Any, text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    assert reloaded.encode(text) == tokenizer.encode(text)


def test_auto_tokenizer_saves_the_same_vocabulary_again(tiny_model_dir: Path, reloaded: Any, tmp_path: Path) -> None:
    assert type(reloaded).__name__ == "Qwen2Tokenizer"
    assert (reloaded.pad_token_id, reloaded.eos_token_id) == (0, 2)
    reloaded.save_pretrained(tmp_path)
    for name in ("tokenizer.json", "chat_template.jinja"):
        assert (tmp_path / name).read_bytes() == (tiny_model_dir / name).read_bytes()


def test_chat_template_is_chatml_and_says_nothing_of_its_own(reloaded: Any) -> None:
    def render(messages: list[dict[str, str]], header: bool) -> str:
        text = reloaded.apply_chat_template(messages, tokenize=False, add_generation_prompt=header)
        assert isinstance(text, str)
        return text

    assert render(DIALOGUE, header=True) == (
        "<|im_start|>system\nPlay.<|im_end|>\n"
        "<|im_start|>user\na red ball 1 step left<|im_end|>\n"
        "<|im_start|>assistant\nturn left<|im_end|>\n"
        "<|im_start|>user\na red ball 1 step forward<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert render(DIALOGUE[1:2], header=False) == "<|im_start|>user\na red ball 1 step left<|im_end|>\n"
    blanks = [{"role": "user", "content": "  a\n"}]
    assert render(blanks, header=True) == "<|im_start|>user\n  a\n<|im_end|>\n<|im_start|>assistant\n"


# Weights


def weights(seed: int, shape: NewModelConfig = SHAPE) -> dict[str, torch.Tensor]:
    return dict(new_model.new_model(TEXTS, shape, seed)[0].state_dict())


def test_weights_come_from_the_seed_alone() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = weights(7)
    assert torch.equal(torch.get_rng_state(), before), "the global random state is left alone"
    torch.manual_seed(2)
    again, other = weights(7), weights(8)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["model.embed_tokens.weight"], other["model.embed_tokens.weight"])
    assert {tensor.dtype for tensor in first.values()} == {torch.float32}


def test_a_default_dtype_and_given_tokenizer_change_nothing(tokenizer: Qwen2Tokenizer) -> None:
    torch.set_default_dtype(torch.float64)
    try:
        model, same = new_model.new_model(tokenizer, SHAPE, 0, "eager")
    finally:
        torch.set_default_dtype(torch.float32)
    assert same is tokenizer
    assert model.dtype == torch.float32
    assert model.config._attn_implementation == "eager"
    assert not model.training


def test_shape_is_what_was_asked_for(tokenizer: Qwen2Tokenizer) -> None:
    shape = NewModelConfig(hidden_size=48, layers=3, heads=6, kv_heads=3, ffn_size=80, max_positions=99)
    model, _ = new_model.new_model(tokenizer, shape, 0)
    assert model.config.vocab_size % 8 == 0
    assert 0 <= model.config.vocab_size - len(tokenizer) < 8
    assert len(model.model.layers) == 3
    assert model.config.max_position_embeddings == 99
    attention = model.model.layers[0].self_attn
    assert (attention.q_proj.weight.shape, attention.k_proj.weight.shape) == ((48, 48), (24, 48))
    assert model.model.layers[0].mlp.up_proj.weight.shape == (80, 48)
    assert model.lm_head.weight is model.model.embed_tokens.weight
    untied, _ = new_model.new_model(tokenizer, shape.model_copy(update={"tie_embeddings": False}), 0)
    assert untied.lm_head.weight is not untied.model.embed_tokens.weight


def test_initial_logits_have_unit_variance(tokenizer: Qwen2Tokenizer) -> None:
    for hidden_size in (32, 128):
        model, _ = new_model.new_model(tokenizer, SHAPE.model_copy(update={"hidden_size": hidden_size}), 0)
        with torch.no_grad():
            logits = model(input_ids=torch.arange(3, 67)[None]).logits
        assert 0.8 < logits.std().item() < 1.3


@pytest.mark.parametrize(
    ("change", "field"),
    [({"heads": 5}, "heads = 5"), ({"hidden_size": 36}, "hidden_size = 36"), ({"kv_heads": 3}, "kv_heads = 3")],
)
def test_heads_must_fit(change: dict[str, int], field: str) -> None:
    with pytest.raises(UserError, match=r"model\.new\.\w+ = .*") as caught:
        new_model.new_model(TEXTS, SHAPE.model_copy(update=change), 0)
    assert f"model.new.{field}" in str(caught.value)
    assert "\n" not in str(caught.value)


# Folder


def test_folder_opens_and_computes_the_same(tiny_model_dir: Path) -> None:
    made, tokenizer = new_model.new_model(TEXTS * 10, SHAPE, seed=0)
    opened = AutoModelForCausalLM.from_pretrained(tiny_model_dir)
    ids = torch.tensor([tokenizer.encode("a red ball 2 steps left")])
    with torch.no_grad():
        assert torch.equal(opened(input_ids=ids).logits, made(input_ids=ids).logits)
    assert (opened.generation_config.eos_token_id, opened.generation_config.pad_token_id) == (2, 0)
    names = {file.name for file in tiny_model_dir.iterdir()}
    assert "model.safetensors" in names
    assert not any(name.endswith((".bin", ".pt", ".pkl")) for name in names)


def test_trunk_and_head_give_the_logits(tiny_model_dir: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(tiny_model_dir)
    ids = torch.tensor([[5, 6, 7]])
    with torch.no_grad():
        hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
        assert torch.equal(model.get_output_embeddings()(hidden), model(input_ids=ids).logits)


def test_create_writes_a_model_of_the_game(corridor: list[Corridor], tmp_path: Path) -> None:
    for name in ("a", "b"):
        new_model.create(tmp_path / name, "corridor", {"endless": False}, SHAPE, seed=3, episodes=4)
    a, b = tmp_path / "a", tmp_path / "b"
    for file in a.iterdir():
        assert file.read_bytes() == (b / file.name).read_bytes(), file.name
    origin = json.loads((a / new_model.ORIGIN).read_text())
    assert (origin["game"], origin["options"], origin["seed"], origin["episodes"]) == (
        "corridor",
        {"endless": False},
        3,
        4,
    )
    assert NewModelConfig(**origin["shape"]) == SHAPE
    assert len(AutoTokenizer.from_pretrained(a).encode("walk")) == 1


def test_foreign_folders_are_not_written_into(corridor: list[Corridor], tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="--overwrite") as caught:
        new_model.create(tmp_path, "corridor", {}, SHAPE, episodes=1)
    assert "\n" not in str(caught.value)
    assert corridor == [], "refused before any work"
    with pytest.raises(UserError, match="is a file"):
        new_model.create(tmp_path / "thesis.tex", "corridor", {}, SHAPE, episodes=1)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]

    new_model.create(tmp_path, "corridor", {}, SHAPE, episodes=1, overwrite=True)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"
    new_model.create(tmp_path, "corridor", {}, SHAPE, seed=1, episodes=1)
    assert json.loads((tmp_path / new_model.ORIGIN).read_text())["seed"] == 1


def test_a_folder_that_cannot_be_made_is_one_line(corridor: list[Corridor], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written") as caught:
        new_model.create(tmp_path / "file" / "model", "corridor", {}, SHAPE, episodes=1)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("method", ["__init__", "reset", "step"])
def test_a_game_that_breaks_is_one_line(
    corridor: list[Corridor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def fall(self: Corridor, *arguments: Any, **options: Any) -> None:
        raise RuntimeError("the lamp\nfell")

    monkeypatch.setattr(Corridor, method, fall)
    with pytest.raises(UserError, match=r"corridor: .*RuntimeError: the lamp fell \(test_new_model\.py:") as caught:
        new_model.create(tmp_path / "model", "corridor", {}, SHAPE, episodes=1)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "model").exists()
    assert all(game.closed for game in corridor)


def test_an_attention_whose_package_is_missing_is_one_line() -> None:
    with pytest.raises(UserError, match=r"model\.attention = flash_attention_2: .*FlashAttention2"):
        new_model.new_model(TEXTS, SHAPE, seed=0, attention="flash_attention_2")


def test_unknown_game_is_the_registrys_error(tmp_path: Path) -> None:
    with pytest.raises(GameError, match="babyi"):
        new_model.create(tmp_path / "model", "babyi/goto", {}, SHAPE)
    assert not (tmp_path / "model").exists()


def test_create_is_what_the_command_calls() -> None:
    names = list(inspect.signature(new_model.create).parameters)
    assert names[:7] == ["directory", "game_id", "options", "shape", "seed", "episodes", "overwrite"]


def test_babyai(tmp_path: Path) -> None:
    texts = new_model.game_texts("babyai/goto", {"num_dists": 3}, 20, 0)
    tokenizer = new_model.train_tokenizer(texts, 512)
    assert [len(tokenizer.encode(action)) for action in ACTIONS] == [2, 2, 2, 2, 1, 1]
    assert len(tokenizer.encode("a red ball 2 steps left and 1 step forward")) == 12


# The real Qwen2.5 tokenizer


@pytest.fixture(scope="module")
def reference() -> tiktoken.Encoding:
    """The package's vocabulary under OpenAI's implementation of byte-pair encoding."""
    from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX

    special = {token: 151643 + number for number, token in enumerate(SPECIAL + ADDED)}
    return tiktoken.Encoding("qwen", pat_str=PRETOKENIZE_REGEX, mergeable_ranks=qwen_ranks(), special_tokens=special)


def test_qwen_ids(qwen: Any) -> None:
    assert type(qwen).__name__ == "Qwen2Tokenizer"
    assert len(qwen) == 151665
    named = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "<|file_sep|>", "Hello"]
    assert qwen.convert_tokens_to_ids(named) == [151643, 151644, 151645, 151657, 151664, 9707]
    assert (qwen.eos_token_id, qwen.pad_token_id) == (151645, 151643)
    assert qwen.decode([151644, 9707, 151657], skip_special_tokens=True) == "Hello<tool_call>"


def test_qwen_template_adds_its_system_line(qwen: Any) -> None:
    bare = qwen.apply_chat_template(DIALOGUE[1:2], tokenize=False, add_generation_prompt=True)
    assert bare.startswith(f"<|im_start|>system\n{DEFAULT_SYSTEM}<|im_end|>\n<|im_start|>user\n")
    own = qwen.apply_chat_template(DIALOGUE[:2], tokenize=False)
    assert own.startswith("<|im_start|>system\nPlay.<|im_end|>\n<|im_start|>user\n")


def test_qwen_equals_tiktoken_on_source_code(qwen: Any, reference: tiktoken.Encoding) -> None:
    for file in (Path(inspect.getfile(json)), Path(inspect.getfile(inspect))):
        text = file.read_text()
        assert qwen.encode(text) == reference.encode(text, allowed_special="all")


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(st.text(max_size=20), st.sampled_from(SPECIAL + ADDED)), max_size=6).map("".join))
def test_qwen_equals_tiktoken(qwen: Any, reference: tiktoken.Encoding, text: str) -> None:
    text = unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode())
    assert qwen.encode(text) == reference.encode(text, allowed_special="all")


def test_qwen_text_does_not_keep_ids(qwen: Any) -> None:
    """Why ids are kept and never made again from text: two pieces that a sampler may choose merge into one."""
    sampled = [qwen.convert_tokens_to_ids("turn"), *qwen.convert_tokens_to_ids(["Ġle", "ft"]), qwen.eos_token_id]
    again = qwen.encode(qwen.decode(sampled))
    assert qwen.decode(sampled) == qwen.decode(again) == "turn left<|im_end|>"
    assert sampled != again
    assert len(again) == 3


def test_qwen_tiny_model_covers_more_than_the_tokenizer(qwen_tiny_dir: Path, qwen: Any) -> None:
    model = AutoModelForCausalLM.from_pretrained(qwen_tiny_dir)
    assert model.config.vocab_size == 151936 > len(qwen)
    with torch.no_grad():
        assert model(input_ids=torch.tensor([qwen.encode("go forward")])).logits.shape == (1, 2, 151936)
