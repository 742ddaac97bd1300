"""Model folders for tests, made of random weights; none of them needs a game."""

import shutil
from pathlib import Path

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from agentrl.config import NewModelConfig
from agentrl.new_model import new_model, save_new_model

TEXTS = [
    "a wall 3 steps forward\na red ball 1 step left and 2 steps forward\ngo to the red ball",
    "a wall 1 step right\na blue key 4 steps forward\na grey box 2 steps left\npick up the blue key",
    "turn left\nturn right\ngo forward\npick up\ndrop\ntoggle",
    "THINK: The best move now is to turn right.\nACTION: turn right",
    "system\nuser\nassistant\n",
]
SHAPE = NewModelConfig(hidden_size=32, layers=2, heads=4, kv_heads=2, ffn_size=64, vocab_size=400, max_positions=2048)


def tiny_model(folder: Path) -> Path:
    """A model of 32 hidden units and 2 layers, with a tokenizer made of `TEXTS`."""
    model, tokenizer = new_model(TEXTS * 10, SHAPE, seed=0)
    save_new_model(folder, model, tokenizer, origin={"made_for": "tests"})
    return folder


def qwen_tiny(folder: Path, tokenizer_folder: Path) -> Path:
    """The real Qwen2.5 tokenizer around two random layers; the embedding is padded to 151936 rows, as Qwen2.5's is."""
    config = Qwen2Config(
        vocab_size=151936,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=64,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        eos_token_id=151645,
        pad_token_id=151643,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Qwen2ForCausalLM(config)
    model.save_pretrained(folder)
    shutil.copytree(tokenizer_folder, folder, dirs_exist_ok=True)
    return folder
