"""What a worker process runs: games, asked one after another through a pipe. It never imports torch.

A frame is 4 bytes of length, 8 bytes of resident memory (0: not measured), both big-endian, and a JSON object. Each
request {"game", "op", "argument"} has one answer; answers come in the order of the requests.
"""

import ctypes
import faulthandler
import json
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from traceback import format_exception
from typing import Any, BinaryIO

from agentrl import answers
from agentrl.envs import ScriptedPlayer, TextEnv, make
from agentrl.errors import UserError, in_short
from agentrl.faults import TRACE

HEADER = struct.Struct(">IQ")

MOST_BYTES = 2**25
"""Of a frame. An observation of the longest text allowed fits."""

ATTRIBUTES = ("actions", "default_action", "max_turns", "mission", "synonyms", "achievements")
"""What a game says of itself; sent when it changed."""

PR_SET_PDEATHSIG = 1

_encode = json.JSONEncoder(default=str).encode

OWN_FILES = (__file__, answers.__file__)


def main(descriptor: int, parent: int, measure: bool) -> None:
    """Play until the pipe ends; then close every game.

    Args:
        descriptor: the pipe, a socket.
        parent: id of the process that asks; when it ends, however it ends, this one does too.
        measure: report resident memory with each answer.
    """
    _die_with(parent)
    # A game may close or replace its standard error: a copy is kept for the stack of a crash, or of a hang (SIGUSR1).
    stderr = os.dup(2)
    faulthandler.enable(stderr)
    faulthandler.register(signal.SIGUSR1, stderr)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    games = Games()
    with socket.socket(fileno=descriptor) as pipe, pipe.makefile("rb") as requests:
        pipe.sendall(frame(payload({}), measure))
        while request := _receive(requests):
            pipe.sendall(frame(games.answer(request), measure))
    games.close()


class Games:
    """The games of one worker, by number, and the scripted players of their running episodes."""

    def __init__(self) -> None:
        self._games: dict[int, TextEnv] = {}
        self._told: dict[int, dict[str, Any]] = {}
        self._players: dict[int, ScriptedPlayer] = {}

    def answer(self, request: dict[str, Any]) -> bytes:
        """What a request led to; {"error", "trace"} if the game broke, {"user"} for a mistake of the user."""
        operation: Callable[[int, Any], dict[str, Any]] = getattr(self, f"_{request['op']}")
        try:
            return payload(operation(request["game"], request["argument"]))
        except UserError as error:
            return payload({"user": str(error)})
        except BaseException as error:  # a game may raise anything, SystemExit and KeyboardInterrupt too
            return payload({"error": in_short(error, *OWN_FILES), "trace": "".join(format_exception(error))[-TRACE:]})

    def close(self) -> None:
        for number in list(self._games):
            with suppress(Exception, SystemExit):
                self._close(number)

    def _make(self, number: int, argument: dict[str, Any]) -> dict[str, Any]:
        self._games[number] = make(argument["id"], **argument["options"])
        return self._attributes(number)

    def _reset(self, number: int, seed: int | None) -> dict[str, Any]:
        self._players.pop(number, None)
        game = self._games[number]
        found, info = game.reset(seed=seed)
        observation = answers.observation(found)
        legal = answers.legal_actions(info, game.actions)
        return {
            "observation": observation,
            "info": _narrowed(info, legal),
            "facts": game.prompt_facts(),
            **self._attributes(number),
        }

    def _step(self, number: int, action: str) -> dict[str, Any]:
        game = self._games[number]
        found, reward, terminated, truncated, info = game.step(action)
        observation = answers.observation(found)
        answer = answers.check(reward, terminated, truncated, info, game.actions, game.achievements)
        told = _narrowed(info, answer.legal)
        told |= {"success": answer.success, "progression": answer.progression}
        if answer.achievements is not None:
            told["achievements"] = answer.achievements
        return {
            "observation": observation,
            "reward": answer.reward,
            "terminated": answer.terminated,
            "truncated": answer.truncated,
            "info": told,
            # Asked only where another prompt is built from them, as a game at home is.
            "facts": {} if answer.terminated else game.prompt_facts(),
            **self._attributes(number),
        }

    def _player(self, number: int, _: None) -> dict[str, Any]:
        player = self._games[number].scripted_player()
        if player is not None:
            self._players[number] = player
        return {"player": player is not None}

    def _consult(self, number: int, _: None) -> dict[str, Any]:
        return {"action": self._players[number]()}

    def _close(self, number: int, _: None = None) -> dict[str, Any]:
        self._players.pop(number, None)
        self._told.pop(number, None)
        if game := self._games.pop(number, None):
            game.close()
        return {}

    def _attributes(self, number: int) -> dict[str, Any]:
        game = self._games[number]
        attributes = {name: getattr(game, name) for name in ATTRIBUTES}
        if self._told.get(number) == attributes:
            return {}
        self._told[number] = deepcopy(attributes)
        return {"attributes": attributes}


def _narrowed(info: dict[str, Any], legal: tuple[str, ...] | None) -> dict[str, Any]:
    return {} if info.get("legal_actions") is None else {"legal_actions": legal}


def _receive(stream: BinaryIO) -> dict[str, Any] | None:
    header = stream.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    length, _ = HEADER.unpack(header)
    request: dict[str, Any] = json.loads(stream.read(length))
    return request


def payload(content: dict[str, Any]) -> bytes:
    """The object as JSON. Raises ValueError and TypeError for what JSON cannot say, or what is too long."""
    text = _encode(content).encode()
    if len(text) > MOST_BYTES:
        raise ValueError(f"an answer of {len(text):,} bytes; at most {MOST_BYTES:,}")
    return text


def frame(content: bytes, measure: bool = False) -> bytes:
    return HEADER.pack(len(content), _resident() if measure else 0) + content


def _resident() -> int:
    """Bytes of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _die_with(parent: int) -> None:
    """End when the parent ends, even while a game hangs. Elsewhere than on Linux the pipe's end is all that tells."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the process that started this worker is gone")
