"""Our checkpoints behind other people's servers: the same replies, asked through the engine, as from our own."""

import os
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

import pytest
import torch
from chat_server import margin
from models import SHAPE, TEXTS
from transformers import AutoModelForCausalLM, AutoTokenizer

from agentrl import envs
from agentrl.chat import end_of_turn_ids
from agentrl.config import PromptConfig
from agentrl.engines.base import Request, Sampling
from agentrl.engines.openai import OpenAIEngine
from agentrl.engines.transformers import TransformersEngine
from agentrl.episode import GameSlot
from agentrl.errors import UserError
from agentrl.memory import make_memory
from agentrl.new_model import new_model, save_new_model
from agentrl.prompting import Prompter

pytestmark = pytest.mark.slow

GAME = "babyai/goto"
TRANSFORMERS = "import sys; from transformers.cli.transformers import main; sys.exit(main())"
SERVERS = {
    "transformers": (
        ("fastapi", "uvicorn"),
        ["-c", TRANSFORMERS, "serve", "MODEL", "--device", "cpu", "--dtype", "float32"],
    ),
    "vllm": (
        ("vllm",),
        ["-m", "vllm.entrypoints.openai.api_server", "--model", "MODEL", "--dtype", "float32", "--enforce-eager"],
    ),
}
"""What each server needs, and its command line; docs/serving.md has them with the reasons."""

VLLM_ON_CPU = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "TORCHDYNAMO_DISABLE": "1",
}


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory) -> Path:
    """A tiny model that has learned to answer in words: servers differ in how they show bytes that are no text.

    Its heads are 32 wide: vLLM has no narrower ones on CPU.
    """
    folder = tmp_path_factory.mktemp("served") / "model"
    shape = SHAPE.model_copy(update={"hidden_size": 64, "heads": 2, "kv_heads": 1})
    lm, tokenizer = new_model(TEXTS * 10, shape, seed=0)
    dialogues = [
        [{"role": "user", "content": scene}, {"role": "assistant", "content": answer}]
        for scene in TEXTS[:2]
        for answer in [*TEXTS[2].split("\n"), TEXTS[3]]
    ]
    ids = [tokenizer.apply_chat_template(each, return_dict=False, return_tensors="pt") for each in dialogues]
    optimizer = torch.optim.AdamW(lm.parameters(), lr=3e-3)
    for step in range(150):
        batch = ids[step % len(ids)]
        lm(input_ids=batch, labels=batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    save_new_model(folder, lm.eval(), tokenizer, origin={"made_for": "tests"})
    return folder


@pytest.fixture(params=SERVERS)
def server(request, model_dir, tmp_path):
    """The base_url of a server that has the tiny model."""
    needs, arguments = SERVERS[request.param]
    missing = [name for name in needs if find_spec(name) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not installed: docs/serving.md tells how")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(model_dir) if word == "MODEL" else word for word in arguments]
    environment = {**os.environ, **VLLM_ON_CPU, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, *command, "--host", "127.0.0.1", "--port", str(port)],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
        )
    try:
        wait_for(f"http://127.0.0.1:{port}/health", process, tmp_path / "log")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(30)


def wait_for(url: str, process: subprocess.Popen, log: Path) -> None:
    opener = build_opener(ProxyHandler({}))
    until = time.monotonic() + 120
    while time.monotonic() < until and process.poll() is None:
        try:
            opener.open(url, timeout=5).close()
            return
        except (URLError, OSError):
            time.sleep(0.2)
    pytest.fail(log.read_text()[-2000:])


def test_a_game_played_through_a_server(server, model_dir):
    """One episode; every prompt is answered greedily by the server and by our own engine, which leads the game."""
    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    lm = AutoModelForCausalLM.from_pretrained(model_dir).eval()
    ours = TransformersEngine(lm, tokenizer, end_of_turn_ids(tokenizer, lm.generation_config))
    theirs = OpenAIEngine(str(model_dir), server, timeout=60)
    config = PromptConfig(style="terse", history=1)
    slot = GameSlot(
        0,
        GAME,
        lambda: envs.make(GAME),
        Prompter(config, GAME, tokenizer),
        make_memory(config),
        lambda episode: 5 if episode == 0 else None,
    )
    assert slot.next_episode()
    assert not slot.overflow
    clear, episode, said = 0, None, set()
    while episode is None:
        request = Request(slot.prompt.messages, slot.prompt.ids, Sampling(0.0, 8), seed=slot.turn)
        (here,), (there,) = ours.generate([request]), theirs.generate([request])
        assert there.error is None
        assert there.prompt_tokens == len(slot.prompt.ids), "the server applies the same chat template"
        if margin(ours, slot.prompt.ids, here.ids) > 1e-4:
            clear += 1
            said.add(here.text)
            # vLLM holds back bytes at the end that are no whole character.
            assert there.text.rstrip("\ufffd") == here.text.rstrip("\ufffd")
            assert (there.finish_reason, there.reply_tokens) == (here.finish_reason, len(here.ids))
        _, episode = slot.play(here)
    slot.close()
    assert episode.error is None
    assert clear > 0.8 * episode.length > 5
    assert len(said) > 1
    assert all(text and text.replace("\n", "").isprintable() for text in said)


def test_a_model_that_the_server_has_not(server):
    with pytest.raises(UserError, match="model = another"):
        OpenAIEngine("another", server, max_retries=0).generate(
            [Request([{"role": "user", "content": "?"}], None, Sampling(0.0, 4))]
        )
