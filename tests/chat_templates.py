"""Chat templates of every temper, and a small tokenizer that has one."""

from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from agentrl.new_model import CHAT_TEMPLATE as CHATML
from agentrl.records import Message

REFUSES_SYSTEM = "{%- if messages[0].role == 'system' -%}{{ raise_exception('no system role') }}{%- endif -%}" + CHATML
IGNORES_SYSTEM = CHATML.replace("-%}\n{{ '<|im_start|>' +", " if message.role != 'system' -%}\n{{ '<|im_start|>' +", 1)
STRIPS_REASONING = CHATML.replace(
    "message['content'] +",
    "(message['content'].split('</think>') | last if message.role == 'assistant' else message.content) +",
)
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def small_tokenizer(template: str = CHATML, specials: tuple[Any, ...] = SPECIALS) -> PreTrainedTokenizerBase:
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    texts = ["system user assistant", "a red ball 2 steps left", "turn left go forward"] * 9
    bpe.train_from_iterator(texts, BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False))
    bpe.add_special_tokens(list(specials))
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=template
    )


TOKENIZER = small_tokenizer()


def plain(tokenizer: PreTrainedTokenizerBase, messages: list[Message]) -> list[int]:
    """What transformers itself makes of the messages."""
    return list(tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False))
