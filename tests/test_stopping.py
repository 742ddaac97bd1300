"""Signals that ask a run to stop: noted, and the handlers that were there come back."""

import signal
import threading

import pytest

from agentrl.stopping import StopSignals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_and_no_more(number: int) -> None:
    signals, before = StopSignals(), [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    with signals.heeded():
        assert not signals.asked
        signal.raise_signal(number)
        assert signals.asked
        signal.raise_signal(signal.SIGTERM)  # a cluster may send it more than once
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_second_ctrl_c_interrupts_at_once() -> None:
    signals, before = StopSignals(), signal.getsignal(signal.SIGINT)
    with signals.heeded():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) == before


def test_in_a_thread_nothing_is_touched() -> None:
    before, seen = signal.getsignal(signal.SIGINT), []

    def heed() -> None:
        with StopSignals().heeded():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=heed)
    thread.start()
    thread.join()
    assert seen == [before]
