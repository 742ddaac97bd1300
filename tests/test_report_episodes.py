"""The episodes that a report shows to read: shortened, and saying so."""

from dataclasses import replace
from pathlib import Path

import pytest
from run_folders import Page, turn, write_run

from agentrl.records import Turn
from agentrl.report import render
from agentrl.report_episodes import MAX_HEAD, MAX_TAIL, MAX_TEXT, read_episodes, shorten
from agentrl.turn_files import write_turns


def test_long_episodes_and_texts_are_shortened_and_say_so(tmp_path: Path) -> None:
    path = tmp_path / "turns" / "evaluation-before.parquet"
    long = [turn(n, reply_text="x" * 10_000 if n == 0 else "ok") for n in range(200)]
    write_turns(path, [replace(t, episode=episode) for episode in range(5) for t in long])
    found = read_episodes(path)
    assert (len(found.episodes), found.left_out) == (3, 2)
    episode = found.episodes[0]
    assert (episode.length, episode.skipped) == (200, 200 - MAX_HEAD - MAX_TAIL)
    assert [shown.turn.turn for shown in episode.head + episode.tail] == [*range(30), *range(190, 200)]
    html = render(tmp_path)
    assert "160 turns left out here; they are in turns/evaluation-before.parquet" in html
    assert "2 more in turns/evaluation-before.parquet" in html
    assert len(html) < 1_000_000
    assert shorten("a" * MAX_TEXT, MAX_TEXT) == "a" * MAX_TEXT
    assert shorten("abcdefgh", 4) == "ab\n… 4 characters left out …\ngh"


@pytest.mark.parametrize(("growing", "turns"), [(False, 450), (True, 90)], ids=["a window of turns", "every turn"])
def test_long_episodes_of_long_prompts_keep_the_page_light(tmp_path: Path, growing: bool, turns: int) -> None:
    """An instruction of 4,000 characters that changes all the time, scenes of 800 characters in memory."""
    write_run(tmp_path)

    def long(number: int) -> Turn:
        kept = range(0 if growing else max(0, number - 5), number)
        memory = [
            m
            for n in kept
            for m in ({"role": "user", "content": f"{n} " + "s" * 800}, {"role": "assistant", "content": "go"})
        ]
        system = {"role": "system", "content": "rules " * 650 + f"open: {number // 3}"}
        return turn(number, messages=[system, *memory, {"role": "user", "content": "s" * 800}], reply_text="t" * 400)

    path = tmp_path / "turns" / "evaluation-after.parquet"
    write_turns(path, [replace(long(n), episode=episode) for episode in range(3) for n in range(turns)])
    html = render(tmp_path)
    assert html.count(f"{turns - 40} turns left out here; they are in turns/evaluation-after.parquet") == 3
    assert len(html) < 700_000
    first = read_episodes(path).episodes[0]
    told = [len(shown.prompt) + shown.left_out for shown in first.head]
    assert told == [2 * n if growing else 2 * min(n, 5) for n in range(30)]
    assert [shown.left_out for shown in first.head[:4]] == [0] * 4
    assert first.head[-1].left_out == told[-1]
    assert "earlier messages, 3 tokens in all; all left out here" in Page(html).words
    assert [shown.turn.turn for shown in first.head if shown.instruction] == list(range(3, 30, 3))


def test_the_newest_of_the_memory_is_shown(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": f"{number} " + "s" * 2990} for number in range(5)]
    path = tmp_path / "evaluation-after.parquet"
    write_turns(path, [turn(0, messages=messages)])
    (shown,) = read_episodes(path).episodes[0].head
    assert (shown.seen[:2], [message["content"][:2] for message in shown.prompt], shown.left_out) == (
        "4 ",
        ["1 ", "2 ", "3 "],
        1,
    )
    assert shown.prompt[1]["content"] == messages[2]["content"]
    assert "characters left out" in shown.prompt[0]["content"]


def test_an_instruction_is_shown_again_where_it_changes(tmp_path: Path) -> None:
    def told(number: int, rules: str) -> Turn:
        return turn(number, messages=[{"role": "system", "content": rules}, {"role": "user", "content": "scene"}])

    write_run(tmp_path)
    path = tmp_path / "turns" / "evaluation-after.parquet"
    write_turns(
        path, [told(0, "Open: all."), told(1, "Open: all."), told(2, "Open: <coal>."), told(3, "Open: <coal>.")]
    )
    (episode,) = read_episodes(path).episodes
    assert episode.instruction == "Open: all."
    assert [shown.instruction for shown in episode.head] == ["", "", "Open: <coal>.", ""]
    page = Page(render(tmp_path))
    assert page.words.count("the instruction has changed Open: <coal>.") == 1
    assert page.words.count("Open: all.") == 1


def test_the_instruction_is_shown_once_and_the_newest_message_apart(tmp_path: Path) -> None:
    path = tmp_path / "evaluation-after.parquet"
    write_turns(path, [turn(0), turn(1, error="game raised")])
    (episode,) = read_episodes(path).episodes
    assert episode.instruction == "The rules."
    assert [shown.seen for shown in episode.head] == ["scene 0", "scene 1"]
    assert [message["content"] for message in episode.head[1].prompt] == ["scene 0", "go forward"]
    assert episode.ending == "error: game raised"
