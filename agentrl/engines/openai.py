"""Any OpenAI-compatible endpoint as an engine, through the official library. For evaluation only: no ids come back.

The library's own retries are off. Here a server that asks to wait is heeded by all threads, not by the one it told; an
answer that is none (a proxy's page, an empty list of choices) is asked for again as a lost one is; and a request that
fails in the end costs its turn, not its batch.
"""

import math
import os
import random
import re
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from agentrl.chat import well_formed
from agentrl.engines.base import Reply, Request
from agentrl.errors import UserError, did_you_mean, one_line

try:
    import openai
except ImportError:
    raise UserError("engine openai: the package openai is missing; pip install 'agentrl[openai]'") from None

OPENAI_URL = "https://api.openai.com/v1"

FIRST_DELAY, LONGEST_DELAY = 0.5, 30.0
"""Seconds before the first retry, doubled with each further one up to the second figure."""

CONNECT = 10.0
"""Seconds; longest wait for a connection."""

LONGEST_HOLD = 300.0
"""Seconds; a server that asks to wait longer is not asked again."""

SPENT = ("insufficient_quota", "credit_balance_exhausted", "billing_hard_limit_reached")
"""Codes of HTTP 429 that no waiting repairs."""

SECRET = 8
"""Characters; a shorter key than that is a stand-in, and would be found in many a text."""


class NoCompletion(Exception):
    """What came back with a good status is no chat completion."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why an attempt failed, whether another one may succeed, and after how many seconds the server wants it."""

    why: str
    again: bool
    delay: float | None = None


class OpenAIEngine:
    """Asks `model` at `base_url`. Several threads may call it at a time.

    Args:
        base_url: up to and with /v1, say http://127.0.0.1:8000/v1.
        timeout: seconds without a byte from the server, after which an attempt has failed.
        max_retries: further attempts at a request whose failure may pass, with growing waits between them.
        concurrency: most requests on their way at a time, over all threads.
        api_key_env: the environment variable that holds the key. A server of one's own needs none.

    Raises:
        UserError: base_url is none; OpenAI's own endpoint without a key.
    """

    in_process = False

    def __init__(
        self,
        model: str,
        base_url: str = OPENAI_URL,
        timeout: float = 120.0,
        max_retries: int = 6,
        concurrency: int = 16,
        api_key_env: str = "OPENAI_API_KEY",
    ) -> None:
        _check_url(base_url)
        self.model = model
        self.base_url = base_url
        self.timeout = timeout
        self.max_retries = max_retries
        self.concurrency = concurrency
        self.api_key_env = api_key_env
        self._client = openai.OpenAI(
            api_key=_key(api_key_env, base_url) or "none",
            base_url=base_url,
            timeout=openai.Timeout(timeout, connect=min(timeout, CONNECT)),
            max_retries=0,
        )
        self._room = threading.BoundedSemaphore(concurrency)
        self._random = random.Random()
        self._hold_until = 0.0
        self._closed = threading.Event()
        self._reached = False
        self._limit_name = "max_tokens"
        self._seeded = True

    def __repr__(self) -> str:
        return f"OpenAIEngine({self.model!r}, {self.base_url!r})"

    def describe(self) -> dict[str, Any]:
        """What a result says of the engine. `seed`: whether the server takes one."""
        fields = ("model", "base_url", "timeout", "max_retries", "concurrency")
        return {"engine": "openai", **{name: getattr(self, name) for name in fields}, "seed": self._seeded}

    def generate(self, requests: list[Request]) -> list[Reply]:
        """Answer each request, in order. One that fails in the end is a Reply with `error`.

        Raises:
            UserError: before anything was ever answered: nobody listens, the key is wrong, the model is unknown. Or a
                setting that the server refuses.
        """
        if len(requests) < 2:
            return [self._answer(request) for request in requests]
        with ThreadPoolExecutor(min(len(requests), self.concurrency), "endpoint") as pool:
            return list(pool.map(self._answer, requests))

    def close(self) -> None:
        """Give up what waits for another attempt, and close the connections."""
        self._closed.set()
        self._client.close()

    def _answer(self, request: Request) -> Reply:
        with self._room:
            attempt = 1
            while True:
                self._closed.wait(max(0.0, self._hold_until - time.monotonic()))
                if self._closed.is_set():
                    return Reply("", finish_reason="error", error="the engine was closed")
                try:
                    reply = self._reply(self._ask(request), request)
                    self._reached = True
                    return reply
                except (openai.OpenAIError, ValueError, NoCompletion) as error:
                    if self._adapts(error):
                        continue
                    self._refuse_at_start(error)
                    failure = self._failure(error)
                if not failure.again or attempt > self.max_retries:
                    tried = f" ({attempt} attempts)" if attempt > 1 else ""
                    return Reply("", finish_reason="error", error=failure.why + tried)
                self._wait(failure.delay, attempt)
                attempt += 1

    def _ask(self, request: Request) -> Any:
        sampling = request.sampling
        fields: dict[str, Any] = {self._limit_name: sampling.max_tokens}
        if self._seeded:
            fields["seed"] = request.seed % 2**31
        return self._client.chat.completions.create(
            model=self.model,
            messages=[{"role": m["role"], "content": well_formed(m["content"])} for m in request.messages],  # type: ignore[misc]
            temperature=sampling.temperature,
            **fields,
        )

    def _reply(self, completion: Any, request: Request) -> Reply:
        """The completion as a Reply. The library does not check what it parses; a model's reasoning stays apart."""
        try:
            choice = completion.choices[0]
            text, reason = choice.message.content, choice.finish_reason
        except (AttributeError, IndexError, KeyError, TypeError):
            told = getattr(completion, "error", None)
            raise NoCompletion(f"no chat completion{f': {told}' if told else ''}") from None
        if not isinstance(text, str | None):
            raise NoCompletion("a chat completion whose content is no text")
        usage = completion.usage
        reply_tokens = _count(usage, "completion_tokens")
        full = reason is None and reply_tokens is not None and reply_tokens >= request.sampling.max_tokens
        return Reply(
            well_formed(self._without_key(text or "")),
            finish_reason="length" if reason == "length" or full else "stop",
            prompt_tokens=_count(usage, "prompt_tokens"),
            reply_tokens=reply_tokens,
        )

    def _adapts(self, error: Exception) -> bool:
        """Whether the server refused how something is said that can be said otherwise, or be left out: ask again."""
        if not isinstance(error, openai.BadRequestError | openai.UnprocessableEntityError):
            return False
        told = f"{error.param or ''} {self._told(error)}"
        if self._limit_name == "max_tokens" and "max_completion_tokens" in told:
            self._limit_name = "max_completion_tokens"
            return True
        if self._seeded and re.search(r"\bseed\b", told):
            self._seeded = False
            return True
        return False

    def _refuse_at_start(self, error: Exception) -> None:
        """Raise UserError for a mistake that every request would meet, unless an earlier one was answered."""
        where = f"engine openai: {self.base_url}"
        if isinstance(error, openai.BadRequestError | openai.UnprocessableEntityError) and error.param == "temperature":
            raise UserError(f"{where}: {self._told(error)}; give the --temperature that the model takes") from None
        if self._reached:
            return
        if isinstance(error, openai.AuthenticationError | openai.PermissionDeniedError):
            given = "holds a key that is refused" if os.environ.get(self.api_key_env, "").strip() else "is not set"
            raise UserError(f"{where}: {self._why(error)}; environment variable {self.api_key_env} {given}") from None
        if isinstance(error, openai.NotFoundError) or self._names_the_model(error):
            raise UserError(f"{where}: model = {self.model}: {self._why(error)}{self._known_models()}") from None
        if _unreached(error):
            raise UserError(f"{where}: {self._why(error)}; is the server up, and is this its address?") from None

    def _names_the_model(self, error: Exception) -> bool:
        """Whether a refusal with another status than 404 is about the model: servers differ."""
        if not isinstance(error, openai.BadRequestError):
            return False
        told = self._told(error)
        return error.code == "model_not_found" or any(f"{quote}{self.model}{quote}" in told for quote in "'\"`")

    def _known_models(self) -> str:
        """What the server says it has."""
        with suppress(Exception):
            names = [str(model.id) for model in self._client.models.list().data][:100]
            shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
            return self._short(f"{did_you_mean(self.model, names)}; known there: {shown}")
        return f"; base_url ends in /v1, with most servers: {self.base_url}"

    def _failure(self, error: Exception) -> _Failure:
        why = self._why(error)
        if not isinstance(error, openai.APIStatusError):
            return _Failure(why, again=True)
        status, headers = error.status_code, error.response.headers
        delay = _asked_delay(headers, status)
        again = status in (408, 409, 425, 429) or status >= 500
        again = {"true": True, "false": False}.get(headers.get("x-should-retry", ""), again)
        if delay is not None and delay > LONGEST_HOLD:
            return _Failure(f"{why}; it asks to wait {delay:.0f} s", again=False)
        return _Failure(why, again and error.code not in SPENT, delay)

    def _wait(self, asked: float | None, attempt: int) -> None:
        """Wait before an attempt: as long as the server asked, and then everybody; else alone, longer each time."""
        if asked is not None:
            self._hold_until = max(self._hold_until, time.monotonic() + asked)
        spread = 1 + self._random.random() / 4  # not all at the same moment
        backoff = min(FIRST_DELAY * 2 ** min(attempt - 1, 20), LONGEST_DELAY)
        self._closed.wait((backoff if asked is None else asked) * spread)

    def _why(self, error: Exception) -> str:
        """The failure in one line, without the key."""
        if isinstance(error, openai.APITimeoutError) and not _unreached(error):
            return f"no answer within {self.timeout:g} s"
        if isinstance(error, openai.APIConnectionError):
            cause = error.__cause__ or error
            return self._short(f"no connection: {str(cause) or type(cause).__name__}")
        if isinstance(error, openai.APIStatusError):
            return self._short(f"HTTP {error.status_code}: {self._told(error)}")
        if isinstance(error, NoCompletion):
            return self._short(str(error))
        return self._short(f"no chat completion: {type(error).__name__}: {error}")

    def _told(self, error: openai.APIStatusError) -> str:
        body = error.body
        message = body.get("message") or body.get("detail") if isinstance(body, Mapping) else body
        return self._short(str(message or error.message))

    def _short(self, text: str) -> str:
        return one_line(self._without_key(text))[:300]

    def _without_key(self, text: str) -> str:
        key = self._client.api_key
        return text.replace(key, "***") if len(key) >= SECRET else text


def _check_url(base_url: str) -> None:
    if not re.match(r"https?://[^/\s]", base_url):
        raise UserError(f"base_url = {base_url}: expected an address such as http://127.0.0.1:8000/v1")
    if re.search(r"://[^/]*@|\?", base_url):
        raise UserError("base_url: has a password or a query in it; keys come from an environment variable alone")


def _key(name: str, base_url: str) -> str:
    key = os.environ.get(name, "").strip()
    if not key and base_url == OPENAI_URL:
        raise UserError(f"{base_url}: needs a key; set the environment variable {name}, or give another base_url")
    if not re.fullmatch(r"[!-~]*", key):
        raise UserError(f"the environment variable {name}: holds characters that no key has; set it anew")
    return key


def _unreached(error: Exception) -> bool:
    """Whether no connection was made at all. (The library's HTTP client has changed its package before.)"""
    return type(error.__cause__).__name__ in ("ConnectError", "ConnectTimeout")


def _count(usage: object, name: str) -> int | None:
    value = getattr(usage, name, None)
    return value if type(value) is int and value >= 0 else None


def _asked_delay(headers: Mapping[str, str], status: int) -> float | None:
    """Seconds that the server wants to be left alone for; None where it does not say."""
    asked = [_number(headers.get("retry-after-ms"), 1000), _number(headers.get("retry-after"), 1)]
    with suppress(TypeError, ValueError):
        asked.append(parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - time.time())
    if status == 429:
        for what in ("requests", "tokens"):
            if headers.get(f"x-ratelimit-remaining-{what}") == "0":
                asked.append(_duration(headers.get(f"x-ratelimit-reset-{what}")))
    return next((delay for delay in asked if delay is not None and delay > 0), None)


def _number(text: str | None, divisor: int) -> float | None:
    try:
        number = float(text or "") / divisor
    except ValueError:
        return None
    return None if math.isnan(number) else number


def _duration(text: str | None) -> float | None:
    """Seconds of `1h2m3.5s`, `250ms`, or a bare number."""
    units = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|h|m|s)", text or "")
    if parts and "".join(map("".join, parts)) == text:
        return sum(float(number) * units[unit] for number, unit in parts)
    return _number(text, 1)
