"""A new small model for one game: a byte-level BPE tokenizer made from the game's own text, and random Qwen2 weights.

A vocabulary of a few hundred tokens keeps such a model at 0.1 M parameters, small enough to learn on one CPU core, and
makes most words of the game one token each.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer
from transformers import (
    AutoModelForCausalLM,
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen2Tokenizer,
)

from agentrl import envs
from agentrl.config import NewModelConfig, PromptConfig
from agentrl.envs import TextEnv
from agentrl.errors import UserError, in_short
from agentrl.faults import in_words
from agentrl.memory import PastTurn, WindowMemory
from agentrl.policy import no_progress_bars
from agentrl.prompting import Prompter
from agentrl.seeding import key, training_seed, uniforms

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"

CHAT_TEMPLATE = """\
{%- for message in messages -%}
{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|im_start|>assistant\\n' }}
{%- endif -%}
"""
"""ChatML, and nothing that the messages do not say: Qwen2.5's own template adds a system line where there is none."""

ROLES = "system\nuser\nassistant\n"

ORIGIN = "agentrl_new_model.json"
"""The file that says how a model was made. A folder that has it may be written again."""


def game_texts(
    game_id: str,
    options: Mapping[str, Any],
    episodes: int,
    seed: int,
    style: str = "terse",
    make: Callable[[], TextEnv] | None = None,
) -> list[str]:
    """Texts of random play: the messages of each turn's prompt, and the turn's legal replies.

    Replies are many times as frequent here as in prompts, so that their words are the first to become single tokens. A
    game of free text (`actions` is None) is played by its default action.

    Args:
        make: makes the game, where that is not `envs.make`'s to do.
    """
    prompter = Prompter(PromptConfig(style=style), game_id, None)
    memory = WindowMemory(history=1, keep="whole")
    texts = [ROLES]
    try:
        with closing(make() if make else envs.make(game_id, **options)) as env:
            for episode in range(episodes):
                observation, info = env.reset(seed=training_seed(seed, 0, episode))
                memory.reset()
                draws = uniforms(key("random_player", seed, episode), env.max_turns)
                for draw in draws:
                    legal = info.get("legal_actions")
                    names = list(legal or env.actions or [env.default_action])
                    messages = prompter.messages(env, observation, memory, legal=legal)
                    replies = [prompter.reply_for(name, observation.scene, env.mission) for name in names]
                    texts += [message["content"] for message in messages]
                    texts.append("\n".join(replies))
                    choice = int(draw * len(names))
                    memory.add(PastTurn(observation.scene, replies[choice], names[choice], valid=True))
                    observation, _, terminated, truncated, info = env.step(names[choice])
                    if terminated or truncated:
                        break
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"game.id = {game_id}: the game broke while its text was read: {in_words(error)}") from error
    return texts


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> Qwen2Tokenizer:
    """Byte-level BPE (Sennrich et al., 2016, on bytes) of at most `vocab_size` tokens, the three special ones included.

    The same texts give the same files, byte for byte. All 256 bytes are in the alphabet: any text can be encoded. The
    pipeline is Qwen2's own (NFC, its split pattern), because `AutoTokenizer` builds that one for every folder of a
    qwen2 model, whatever else its tokenizer.json says.
    """
    pipeline = Qwen2Tokenizer().backend_tokenizer
    trained = Tokenizer(BPE())
    trained.normalizer, trained.pre_tokenizer = pipeline.normalizer, pipeline.pre_tokenizer
    trainer = BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[PAD, START, END],
        initial_alphabet=ByteLevel.alphabet(),
        show_progress=False,
    )
    trained.train_from_iterator(texts, trainer)
    model = json.loads(trained.to_str())["model"]
    return Qwen2Tokenizer(
        vocab=model["vocab"],
        merges=[tuple(pair) for pair in model["merges"]],
        pad_token=PAD,
        eos_token=END,
        extra_special_tokens=[START],
        chat_template=CHAT_TEMPLATE,
    )


def new_model(
    source: Iterable[str] | Qwen2Tokenizer, shape: NewModelConfig, seed: int, attention: str = "sdpa"
) -> tuple[Qwen2ForCausalLM, Qwen2Tokenizer]:
    """A model with random fp32 weights, and its tokenizer: `source`, or one trained on the texts that `source` is.

    The weights depend on `seed` and the shape alone; the global random state is left as it was.

    Raises:
        UserError: the heads do not fit the hidden size, or the package of `attention` is not installed.
    """
    _check_heads(shape)
    # Matrices that keep the scale of what they multiply, and logits of unit variance. Qwen2's own 0.02 is made for
    # hidden sizes of thousands: at 64 its layers start near zero, and imitating a player took three times the steps.
    initializer_range = shape.hidden_size**-0.5
    tokenizer = source if isinstance(source, Qwen2Tokenizer) else train_tokenizer(source, shape.vocab_size)
    config = Qwen2Config(
        vocab_size=-(-len(tokenizer) // 8) * 8,
        hidden_size=shape.hidden_size,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        intermediate_size=shape.ffn_size,
        max_position_embeddings=shape.max_positions,
        tie_word_embeddings=shape.tie_embeddings,
        initializer_range=initializer_range,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(key("model", seed))
        try:
            model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation=attention)
        except ImportError as error:
            raise UserError(f"model.attention = {attention}: {in_short(error)}") from error
    model.generation_config = GenerationConfig(eos_token_id=config.eos_token_id, pad_token_id=config.pad_token_id)
    return model.eval(), tokenizer


def save_new_model(
    directory: str | Path,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    origin: Mapping[str, Any],
    overwrite: bool = False,
) -> None:
    """Write a Hugging Face folder (safetensors), and `origin`, how the model was made.

    Raises:
        UserError: the folder holds something else, or cannot be written.
    """
    folder = Path(directory)
    check_folder(folder, overwrite)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Written first, so that the torso of an interrupted call may be written again.
        (folder / ORIGIN).write_text(json.dumps(dict(origin), indent=2, default=str) + "\n", encoding="utf-8")
        tokenizer.save_pretrained(folder)
        with no_progress_bars():
            model.save_pretrained(folder)
    except OSError as error:
        raise UserError(f"{folder}: cannot be written: {error.strerror or error}") from error


def create(
    directory: str | Path,
    game_id: str,
    options: Mapping[str, Any],
    shape: NewModelConfig,
    seed: int = 0,
    episodes: int = 50,
    overwrite: bool = False,
    style: str = "terse",
) -> None:
    """Make a new model for a game and save it: what `agentrl new-model` does.

    Raises:
        UserError, GameError: the folder holds something else; no such game, option or style; the shape does not fit.
    """
    check_folder(Path(directory), overwrite)
    _check_heads(shape)
    texts = game_texts(game_id, options, episodes, seed, style)
    model, tokenizer = new_model(texts, shape, seed)
    origin = {
        "game": game_id,
        "options": dict(options),
        "style": style,
        "episodes": episodes,
        "seed": seed,
        "shape": shape.model_dump(),
    }
    save_new_model(directory, model, tokenizer, origin, overwrite)


def check_folder(folder: Path, overwrite: bool) -> None:
    """Raise a UserError where something else than a model made here would be written over."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: is a file; give a folder's name")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / ORIGIN).is_file() and not overwrite:
        raise UserError(f"{folder}: holds files that no new-model call made; choose another folder, or --overwrite")


def _check_heads(shape: NewModelConfig) -> None:
    if shape.hidden_size % (2 * shape.heads):
        raise UserError(
            f"model.new.heads = {shape.heads}: model.new.hidden_size = {shape.hidden_size} must be a multiple of twice "
            f"that (rotary positions turn pairs of numbers)"
        )
    if shape.heads % shape.kv_heads:
        raise UserError(f"model.new.kv_heads = {shape.kv_heads}: must divide model.new.heads = {shape.heads}")
