"""The engine behind an endpoint: what it asks, how it reads the answer, and what each way of failing comes to."""

import json
import logging
import socket
import threading
import time
from collections import deque
from email.utils import formatdate
from pathlib import Path

import pytest
from chat_server import ChatServer, Fault, completion, constant, margin, model_answer
from games import make_slot, recipe
from transformers import AutoModelForCausalLM, AutoTokenizer

from agentrl.agents import ModelAgent
from agentrl.chat import ChatEncoder, end_of_turn_ids
from agentrl.collector import begin_episodes, play_round
from agentrl.engines import openai as engine_module
from agentrl.engines.base import Reply, Request, Sampling
from agentrl.engines.openai import OpenAIEngine
from agentrl.engines.transformers import TransformersEngine
from agentrl.errors import UserError
from agentrl.trainer import Trainer

KEY = "sk-very-secret-0123456789"
NOBODY = "http://127.0.0.1:9/v1"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(engine_module, "FIRST_DELAY", 0.01)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture
def server():
    with ChatServer(constant("ACTION: go")) as running:
        yield running


def request(text: str = "go where?", temperature: float = 0.0, max_tokens: int = 8, seed: int = 1) -> Request:
    return Request([{"role": "user", "content": text}], None, Sampling(temperature, max_tokens), seed=seed)


def ask(server: ChatServer, count: int = 1, **options) -> list[Reply]:
    engine = OpenAIEngine(server.model, server.url, **options)
    return engine.generate([request(f"question {i}") for i in range(count)])


def test_what_is_asked_and_what_comes_back(server):
    engine = OpenAIEngine("tiny", server.url, max_retries=0)
    messages = [{"role": "system", "content": "rules"}, {"role": "user", "content": "a lone \ud800 surrogate"}]
    (reply,) = engine.generate([Request(messages, None, Sampling(0.5, 7), seed=2**40 + 5)])
    assert (reply.text, reply.finish_reason, reply.error) == ("ACTION: go", "stop", None)
    assert (reply.prompt_tokens, reply.reply_tokens, reply.ids) == (3, 2, [])
    (body,) = server.bodies
    assert {name: body[name] for name in ("model", "temperature", "max_tokens", "seed")} == {
        "model": "tiny",
        "temperature": 0.5,
        "max_tokens": 7,
        "seed": 5,
    }
    assert body["messages"][1]["content"] == "a lone ? surrogate"
    assert not engine.in_process


def test_greedy_is_temperature_zero(server):
    ask(server)
    assert server.bodies[0]["temperature"] == 0


def test_order_is_kept_and_no_more_are_open_than_allowed():
    def slow_echo(body):
        time.sleep(0.02)
        return Reply(body["messages"][0]["content"])

    with ChatServer(slow_echo) as server:
        replies = ask(server, 12, concurrency=3)
    assert [reply.text for reply in replies] == [f"question {i}" for i in range(12)]
    assert server.most == 3


def test_threads_share_one_limit():
    with ChatServer(lambda body: time.sleep(0.03) or Reply("go")) as server:
        engine = OpenAIEngine("tiny", server.url, concurrency=2)
        threads = [threading.Thread(target=engine.generate, args=([request()],)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (len(server.bodies), server.most) == (6, 2)


@pytest.mark.parametrize(
    ("said", "expected"),
    [("length", "length"), ("stop", "stop"), ("content_filter", "stop"), ("tool_calls", "stop"), (None, "stop")],
)
def test_finish_reasons(said, expected):
    with ChatServer(constant("go", said)) as server:
        assert ask(server)[0].finish_reason == expected


def test_without_a_finish_reason_the_count_tells(server):
    full = Reply("go", finish_reason=None, prompt_tokens=3, reply_tokens=8)  # type: ignore[arg-type]
    server.faults.append(Fault(body=completion("tiny", full)))
    assert ask(server)[0].finish_reason == "length"


@pytest.mark.parametrize("content", [None, ""])
def test_empty_content_is_an_empty_reply(server, content):
    server.faults.append(Fault(body=completion("tiny", Reply(content))))
    (reply,) = ask(server)
    assert (reply.text, reply.error) == ("", None)


def test_reasoning_stays_apart_and_surrogates_out(server):
    body = completion("tiny", Reply("ACTION: go \ud83d!"))
    body["choices"][0]["message"] |= {"reasoning_content": "ACTION: stay", "reasoning": "ACTION: stay"}
    del body["usage"]
    server.faults.append(Fault(body=body))
    (reply,) = ask(server)
    assert (reply.text, reply.prompt_tokens, reply.reply_tokens) == ("ACTION: go ?!", None, None)


BROKEN = {
    "garbage": Fault(body='{"choices": [{"mess'),
    "a page": Fault(body="<html>busy</html>", headers={"Content-Type": "text/html"}),
    "no choices": Fault(body={"id": "1", "choices": []}),
    "null choices": Fault(body={"choices": None, "error": {"message": "upstream", "code": 502}}),
    "a number": Fault(body=17),
    "content that is none": Fault(body={"choices": [{"message": {"content": {"a": 1}}, "finish_reason": "stop"}]}),
    "a cut answer": Fault(cut=25),
    "nothing at all": Fault(cut=0),
    "500": Fault(500, {"error": {"message": "out of memory"}}),
    "503": Fault(503, "<html>\x1b[31mgone</html>"),
    "429": Fault(429, {"error": {"message": "slow down"}}),
    "408": Fault(408, {}),
}


@pytest.mark.parametrize("fault", BROKEN.values(), ids=BROKEN)
def test_what_may_pass_is_asked_again(server, fault):
    server.faults.extend([fault, fault])
    (reply,) = ask(server, max_retries=2)
    assert (reply.text, reply.error, len(server.bodies)) == ("ACTION: go", None, 3)


@pytest.mark.parametrize("fault", BROKEN.values(), ids=BROKEN)
def test_what_does_not_pass_is_a_reply_with_an_error(server, fault):
    """The first of two requests fails for good; the second one is answered."""
    engine = OpenAIEngine("tiny", server.url, max_retries=1, concurrency=1)
    server.faults.extend([fault, fault])
    failed, answered = engine.generate([request(), request()])
    assert answered.text == "ACTION: go"
    assert (failed.text, failed.finish_reason) == ("", "error")
    assert failed.error.endswith("(2 attempts)")
    assert failed.error.isprintable()
    assert len(server.bodies) == 3


def test_what_will_not_pass_is_not_asked_again(server):
    long = Fault(400, {"error": {"message": "context length is 10", "code": "context_length_exceeded"}})
    spent = Fault(429, {"error": {"message": "pay first", "code": "insufficient_quota"}})
    never = Fault(500, {}, {"x-should-retry": "false"})
    for fault in (long, spent, never):
        server.faults.append(fault)
        assert f"HTTP {fault.status}" in ask(server)[0].error
    assert len(server.bodies) == 3


def test_the_timeout_is_passed_and_a_hung_request_asked_again(server):
    server.faults.append(Fault(hang=20.0))
    began = time.monotonic()
    assert ask(server, timeout=0.3)[0].text == "ACTION: go"
    assert 0.3 <= time.monotonic() - began < 5
    server.faults.append(Fault(hang=20.0))
    assert ask(server, timeout=0.3, max_retries=0)[0].error == "no answer within 0.3 s"


WAITS = {
    "seconds": ({"Retry-After": "0.4"}, 0.4),
    "milliseconds": ({"retry-after-ms": "400", "Retry-After": "9"}, 0.4),
    "rate limit": ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "400ms"}, 0.4),
    "not the one that is spent": ({"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "6m0s"}, 0.0),
    "nonsense": ({"Retry-After": "soon"}, 0.0),
    "in the past": ({"Retry-After": "-3"}, 0.0),
    "not a number": ({"Retry-After": "nan"}, 0.0),
}


@pytest.mark.parametrize(("headers", "wait"), WAITS.values(), ids=WAITS)
def test_the_server_says_how_long_to_wait(server, headers, wait):
    server.faults.append(Fault(429, {}, headers))
    assert ask(server)[0].error is None
    first, second = server.times
    assert wait <= second - first < wait + 0.35


def test_all_threads_wait_when_one_is_told_to(server):
    """The first is sent away for 0.5 s while the second has not begun: neither asks before that."""
    server.faults.append(Fault(429, {}, {"Retry-After": "0.5"}))
    engine = OpenAIEngine("tiny", server.url)
    first = threading.Thread(target=engine.generate, args=([request()],))
    first.start()
    while engine._hold_until == 0:
        time.sleep(0.01)
    engine.generate([request()])
    first.join()
    assert all(moment - server.times[0] >= 0.5 for moment in server.times[1:])
    assert len(server.times) == 3


def test_delays_as_servers_write_them():
    read = engine_module._asked_delay
    assert read({"retry-after": formatdate(time.time() + 60, usegmt=True)}, 503) == pytest.approx(60, abs=2)
    limits = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m2.5s"}
    assert read(limits, 429) == 62.5
    assert read(limits, 500) is None
    assert engine_module._duration("1h1s") == 3601
    assert engine_module._duration("17") == 17
    assert engine_module._duration("6 minutes") is None


def test_who_is_sent_away_for_too_long_gives_up(server):
    for header in ("86400", "1e999"):
        server.faults.append(Fault(429, {}, {"Retry-After": header}))
        assert "asks to wait" in ask(server)[0].error
    assert len(server.bodies) == 2


def test_without_advice_waits_grow(server, monkeypatch):
    monkeypatch.setattr(engine_module, "FIRST_DELAY", 0.1)
    server.faults.extend([Fault(500, {})] * 3)
    ask(server, max_retries=3)
    gaps = [later - earlier for earlier, later in zip(server.times, server.times[1:], strict=False)]
    for gap, delay in zip(gaps, (0.1, 0.2, 0.4), strict=True):
        assert delay <= gap < 1.25 * delay + 0.1


def test_close_ends_the_waiting(server):
    server.faults.append(Fault(429, {}, {"Retry-After": "200"}))
    engine = OpenAIEngine("tiny", server.url)
    threading.Timer(0.3, engine.close).start()
    began = time.monotonic()
    assert engine.generate([request()])[0].error == "the engine was closed"
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("name", ["seed", "max_tokens"])
def test_fields_that_a_server_does_not_take(name):
    with ChatServer(constant("go"), refuses=(name,)) as server:
        engine = OpenAIEngine("tiny", server.url, max_retries=0)
        assert [reply.text for reply in engine.generate([request()])] == ["go"]
        engine.generate([request()])
    assert len(server.bodies) == 3, "told once, remembered"
    assert name not in server.bodies[-1]
    assert server.bodies[-1].get("max_tokens", server.bodies[-1].get("max_completion_tokens")) == 8
    assert engine.describe()["seed"] == (name != "seed")


def test_a_refused_temperature_is_no_detail():
    with (
        ChatServer(constant("go"), refuses=("temperature",)) as server,
        pytest.raises(UserError, match="--temperature"),
    ):
        ask(server)


class TestAtTheStart:
    """Mistakes that every request would meet are told in one line, once."""

    def test_nobody_listens(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
            with pytest.raises(UserError, match=f"{url}.*is the server up"):
                OpenAIEngine("tiny", url).generate([request()] * 3)

    def test_no_such_model(self, server):
        with pytest.raises(UserError, match=r"model = tinny.*did you mean tiny.*known there: tiny"):
            OpenAIEngine("tinny", server.url).generate([request()])

    def test_no_such_model_with_another_status(self, server):
        """`transformers serve MODEL` answers 400, without a code."""
        server.faults.append(Fault(400, {"detail": "Server is pinned to 'big'; requested 'tiny'."}))
        with pytest.raises(UserError, match=r"model = tiny.*pinned to 'big'"):
            ask(server)

    def test_a_wrong_key_and_none(self, monkeypatch):
        with ChatServer(constant("go"), key="another") as server:
            with pytest.raises(UserError, match=r"401.*OPENAI_API_KEY is not set"):
                ask(server)
            monkeypatch.setenv("OPENAI_API_KEY", KEY)
            with pytest.raises(UserError, match="OPENAI_API_KEY holds a key that is refused") as raised:
                ask(server)
            assert KEY not in str(raised.value)
            monkeypatch.setenv("MINE", "another")
            assert ask(server, api_key_env="MINE")[0].text == "go"

    @pytest.mark.parametrize("url", ["127.0.0.1:8000", "localhost", "ftp://x/v1", "", "http://"])
    def test_no_address(self, url):
        with pytest.raises(UserError, match="base_url"):
            OpenAIEngine("tiny", url)

    def test_keys_are_not_for_addresses(self):
        for url in (f"http://me:{KEY}@127.0.0.1/v1", f"http://127.0.0.1/v1?key={KEY}"):
            with pytest.raises(UserError, match="environment") as raised:
                OpenAIEngine("tiny", url)
            assert KEY not in str(raised.value)

    def test_a_key_is_needed_where_it_is(self, monkeypatch):
        with pytest.raises(UserError, match="OPENAI_API_KEY"):
            OpenAIEngine("gpt-4o-mini")
        monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\nX-Other: 1")
        with pytest.raises(UserError, match="characters") as raised:
            OpenAIEngine("gpt-4o-mini")
        assert KEY not in str(raised.value)

    def test_later_it_is_a_failed_request(self, server):
        engine = OpenAIEngine("tiny", server.url, max_retries=0)
        assert engine.generate([request()])[0].error is None
        server.faults.extend([Fault(401, {"error": {"message": "revoked"}}), Fault(404, {})])
        replies = engine.generate([request(), request()])  # side by side: either may arrive first
        assert sorted(reply.error[:8] for reply in replies) == ["HTTP 401", "HTTP 404"]


def test_the_key_is_nowhere(monkeypatch, caplog):
    """Not in what the engine says of itself, not in the logs of any library, not where a server echoes it."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY + "\n")
    caplog.set_level(logging.DEBUG)
    with ChatServer(constant(f"your key is {KEY}"), key=KEY) as server:
        engine = OpenAIEngine("tiny", server.url, max_retries=1)
        server.faults = deque([Fault(500, {"error": {"message": f"key {KEY}"}})] * 2 + [Fault(body=f"page {KEY}")] * 2)
        said = [engine.generate([request()])[0] for _ in range(3)]
    assert all(headers["authorization"] == f"Bearer {KEY}" for headers in server.headers)
    assert [reply.error is None for reply in said] == [False, False, True]
    assert said[2].text == "your key is ***"
    told = [repr(engine), str(vars(engine)), json.dumps(engine.describe()), caplog.text, repr(said)]
    assert all(KEY not in text for text in told)
    assert len(caplog.text) > 100


@pytest.fixture(scope="module")
def model(tiny_model_dir):
    """Our own engine, and what turns messages to ids."""
    tokenizer = AutoTokenizer.from_pretrained(tiny_model_dir)
    lm = AutoModelForCausalLM.from_pretrained(tiny_model_dir).eval()
    return TransformersEngine(lm, tokenizer, end_of_turn_ids(tokenizer, lm.generation_config)), ChatEncoder(tokenizer)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_same_replies_as_in_process(tiny_model_dir, model, temperature):
    """The endpoint plays one request at a time, here they share a batch: where the first two choices are further apart
    than rounding, replies are equal. Sampled ones, too: the seed arrives."""
    at_home, chat = model
    scenes = [f"a wall {n} steps forward\na red ball {n % 3} step left" for n in range(12)]
    messages = [[{"role": "user", "content": scene}] for scene in scenes]
    sampling = Sampling(temperature, 12)
    expected = at_home.generate([Request(each, chat.encode(each), sampling, seed=i) for i, each in enumerate(messages)])
    with ChatServer(model_answer(tiny_model_dir)) as server:
        engine = OpenAIEngine("tiny", server.url, concurrency=4)
        found = engine.generate([Request(each, None, sampling, seed=i) for i, each in enumerate(messages)])
    clear = [
        temperature > 0 or margin(at_home, chat.encode(m), e.ids) > 1e-4
        for m, e in zip(messages, expected, strict=True)
    ]
    assert sum(clear) > 8
    assert len({reply.text for reply in expected}) > 3
    for sure, here, there in zip(clear, expected, found, strict=True):
        assert not sure or there.text == here.text
        assert not sure or (there.finish_reason, there.reply_tokens) == (here.finish_reason, len(here.ids))
        assert there.prompt_tokens == here.prompt_tokens


def test_nothing_is_trained_on_an_endpoint(tmp_path):
    config = recipe(tmp_path, engine={"name": "openai", "constrain": "none"})
    with pytest.raises(UserError, match=r"engine.name = openai.*set transformers"):
        Trainer(config)
    assert list(tmp_path.iterdir()) == []


def test_a_turn_without_an_answer_breaks_its_episode_alone(server):
    """Three episodes of fake/echo in lock step; the second request of all is never answered."""
    engine = OpenAIEngine("tiny", server.url, max_retries=0, concurrency=1)
    slots = [make_slot(i, lambda episode: episode if episode < 2 else None) for i in range(3)]
    begin_episodes(slots)
    server.faults.extend([Fault(), Fault(500, {"error": {"message": "lost"}})])
    played = play_round(slots, ModelAgent(engine, Sampling(0.0, 8), seed=0))
    (_, whole, none), (slot, broken, episode), (_, third, _) = played
    assert (none, whole.error, third.error) == (None, None, None)
    assert broken.error == episode.error == "engine: HTTP 500: lost"
    assert (broken.finish_reason, episode.success, episode.progression, episode.length) == ("error", None, None, 1)
    assert slot.next_episode(), "its game goes on with another episode"
    assert slot.play(Reply("red"))[0].error is None


def test_the_code_of_the_docs_runs(server, capsys):
    text = (Path(__file__).parents[1] / "docs" / "serving.md").read_text(encoding="utf-8")
    code = text.partition("```python\n")[2].partition("```")[0]
    exec(code.replace("http://127.0.0.1:8000/v1", server.url).replace('"NAME"', '"tiny"'), {})
    assert capsys.readouterr().out == "ACTION: go stop 2 None\n"
    assert server.bodies[0]["max_tokens"] == 64
