"""A chat endpoint for tests on 127.0.0.1, in OpenAI's form: it answers by a function, and fails when it is told to."""

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from agentrl.chat import ChatEncoder, end_of_turn_ids
from agentrl.engines.base import Reply, Request, Sampling
from agentrl.engines.transformers import TransformersEngine

Answer = Callable[[dict[str, Any]], Reply]
"""From the body of a request to a reply."""


@dataclass(frozen=True)
class Fault:
    """What the server does to one request instead of answering it.

    Args:
        status: with `body` (JSON, unless it is text) and `headers`; 200 for an answer that is none.
        hang: seconds of silence before anything is sent.
        cut: bytes of a good answer after which the connection is closed; None: not cut.
    """

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    hang: float = 0.0
    cut: int | None = None


def constant(text: str, finish_reason: str = "stop") -> Answer:
    return lambda body: Reply(text, finish_reason=finish_reason, prompt_tokens=3, reply_tokens=2)  # type: ignore[arg-type]


def model_answer(folder: Path) -> Answer:
    """The model in a folder, played by our own engine: one reply at a time."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    lm = AutoModelForCausalLM.from_pretrained(folder).eval()
    engine = TransformersEngine(lm, tokenizer, end_of_turn_ids(tokenizer, lm.generation_config))
    chat, lock = ChatEncoder(tokenizer), threading.Lock()

    def answer(body: dict[str, Any]) -> Reply:
        messages = body["messages"]
        sampling = Sampling(body["temperature"], body.get("max_tokens") or body["max_completion_tokens"])
        with lock:
            return engine.generate([Request(messages, chat.encode(messages), sampling, seed=body.get("seed", 0))])[0]

    return answer


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hung up is none of the tests' business."""


class ChatServer:
    """Serves on a free port while it is entered.

    Args:
        key: the only key that is let in; None: any, and none.
        refuses: fields of a request that are answered with HTTP 400, as servers do that do not know them.

    Attributes:
        url: base_url of a client.
        faults: what befalls the next requests, one each; put some in at any time.
        bodies, headers, times: what was asked, in order of arrival, with `time.monotonic()`.
        most: requests that were open at the same time, at most.
    """

    def __init__(
        self, answer: Answer, model: str = "tiny", key: str | None = None, refuses: tuple[str, ...] = ()
    ) -> None:
        self.answer, self.model, self.key, self.refuses = answer, model, key, refuses
        self.faults: deque[Fault] = deque()
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.most = self._open = 0
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._server = Server(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> "ChatServer":
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def respond(self, body: dict[str, Any], headers: dict[str, str]) -> tuple[int, Any, Fault]:
        """Status, body and what goes wrong."""
        with self._lock:
            self.bodies.append(body)
            self.headers.append(headers)
            self.times.append(time.monotonic())
            fault = self.faults.popleft() if self.faults else Fault()
        self._released.wait(fault.hang)
        if self.key is not None and headers.get("authorization") != f"Bearer {self.key}":
            said = f"Incorrect API key provided: {headers.get('authorization', '')}"
            return 401, {"error": {"message": said, "code": "invalid_api_key"}}, fault
        if body["model"] != self.model:
            return 404, {"error": {"message": f"no model {body['model']}", "code": "model_not_found"}}, fault
        for name in self.refuses:
            if name in body:
                other = " Use max_completion_tokens." if name == "max_tokens" else ""
                message = f"Unsupported parameter: {name}.{other}"
                return 400, {"error": {"message": message, "param": name, "code": "unsupported_parameter"}}, fault
        if fault.status != 200 or fault.body is not None:
            return fault.status, fault.body, fault
        return 200, completion(self.model, self.answer(body)), fault

    def _handler(server) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._send(200, {"object": "list", "data": [{"id": server.model, "object": "model"}]}, Fault())

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with server._lock:
                    server._open += 1
                    server.most = max(server.most, server._open)
                try:
                    answer = server.respond(body, {name.lower(): value for name, value in self.headers.items()})
                finally:
                    with server._lock:
                        server._open -= 1
                self._send(*answer)

            def _send(self, status: int, body: Any, fault: Fault) -> None:
                data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", **fault.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data if fault.cut is None else data[: fault.cut])
                self.close_connection = self.close_connection or fault.cut is not None

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        return Handler


def margin(engine: TransformersEngine, prompt: list[int], reply: list[int]) -> float:
    """How far the likeliest token is ahead of the second one, in logits, where a reply was most in doubt."""
    with torch.no_grad():
        logits = engine.lm(torch.tensor([prompt + reply])).logits[0, len(prompt) - 1 : -1]
    best = logits.topk(2).values
    return float((best[:, 0] - best[:, 1]).min())


def completion(model: str, reply: Reply) -> dict[str, Any]:
    """A reply in the endpoint's form."""
    tokens = {"prompt_tokens": reply.prompt_tokens, "completion_tokens": reply.reply_tokens, "total_tokens": 0}
    message = {"role": "assistant", "content": reply.text}
    choice = {"index": 0, "message": message, "finish_reason": reply.finish_reason}
    base = {"id": "1", "object": "chat.completion", "created": 0, "model": model}
    return {**base, "choices": [choice], "usage": tokens}
