import json
from dataclasses import replace
from pathlib import Path

import pytest
from run_folders import figures, turn, write_run
from tiny import tokenizer

from agentrl.errors import UserError
from agentrl.records import Turn
from agentrl.turn_files import TurnFileError, write_turns
from agentrl.view_data import curves, open_source, outcomes, table
from agentrl.view_tokens import Pieces, add_pieces, find_tokenizer
from agentrl.view_turns import FoundEpisode, number, read_episodes


def read(tmp_path: Path, turns: list[Turn]) -> list[FoundEpisode]:
    write_turns(tmp_path / "turns.parquet", turns)
    return list(read_episodes(tmp_path / "turns.parquet"))


def spoken(episode: FoundEpisode, at: int) -> list[tuple[str, str]]:
    flat, texts = episode.chunk["messages"][at], episode.chunk["texts"]
    return [(texts[flat[place]], texts[flat[place + 1]]) for place in range(0, len(flat), 2)]


def test_an_episode_as_the_list_shows_it(tmp_path: Path) -> None:
    [episode] = read(tmp_path, [turn(0, reward=0.25), turn(1, valid=False, reward=-0.5, terminated=True)])
    assert episode.line == {
        "task": "babyai/goto",
        "seed": 9,
        "slot": 0,
        "episode": 0,
        "length": 2,
        "return": -0.25,
        "invalid": 1,
        "error": "",
        "ending": "ended",
        "success": None,
        "progression": None,
    }
    assert (episode.actions, episode.rewards, episode.first_turn) == (["turn left"] * 2, [0.25, -0.5], 0)


@pytest.mark.parametrize(
    ("changes", "ending"),
    [
        ({}, "cut"),
        ({"truncated": True}, "time limit"),
        ({"terminated": True, "truncated": True}, "ended"),
        ({"error": "raised: no", "finish_reason": "error"}, "error"),
    ],
)
def test_how_an_episode_ended(tmp_path: Path, changes: dict[str, object], ending: str) -> None:
    assert read(tmp_path, [turn(0), turn(1, **changes)])[0].line["ending"] == ending


def test_each_text_is_kept_once_and_messages_are_what_they_were(tmp_path: Path) -> None:
    turns = [turn(number) for number in range(5)]
    [episode] = read(tmp_path, turns)
    for at, one in enumerate(turns):
        assert spoken(episode, at) == [(message["role"], message["content"]) for message in one.messages]
    texts = episode.chunk["texts"]
    assert len(texts) == len(set(texts)) == len({"system", "user", "assistant", "The rules.", "go forward"}) + 6


def test_rows_of_several_episodes_may_be_mixed_and_out_of_order(tmp_path: Path) -> None:
    one, other = ([replace(turn(at), slot=slot, action=f"{slot} {at}") for at in range(3)] for slot in (0, 1))
    found = read(tmp_path, [one[0], other[1], one[2], other[0], one[1], other[2]])
    assert {episode.line["slot"]: episode.actions for episode in found} == {
        0: ["0 0", "0 1", "0 2"],
        1: ["1 0", "1 1", "1 2"],
    }


def test_a_broken_turn_is_not_replayed(tmp_path: Path) -> None:
    [episode] = read(tmp_path, [turn(0), turn(1, error="raised: no", finish_reason="error", action="")])
    assert (episode.actions, episode.line["length"], episode.line["error"]) == (["turn left"], 2, "raised: no")


def test_a_replay_compares_the_games_own_reward(tmp_path: Path) -> None:
    [episode] = read(tmp_path, [turn(0, reward=-0.5, reward_parts={"game": 0.5, "format": -1.0})])
    assert (episode.rewards, episode.chunk["parts"]) == ([0.5], [[["game", 0.5], ["format", -1.0]]])


def test_the_rest_of_an_episode_says_where_it_begins(tmp_path: Path) -> None:
    assert read(tmp_path, [turn(7), turn(8)])[0].first_turn == 7


def test_legal_tokens_are_counted(tmp_path: Path) -> None:
    one = turn(0, reply_ids=[4, 5, 6], reply_logprobs=[-1.0, 0.0, -2.0], reply_legal=[(4, 8, 9), (5,), ()])
    free = turn(1, reply_ids=[4, 5], reply_logprobs=[-1.0, -2.0], reply_legal=[(), ()])
    [episode] = read(tmp_path, [one, free])
    assert episode.chunk["legal"] == [[3, 1, 0], []]
    assert episode.chunk["logprobs"] == [[-1.0, 0.0, -2.0], [-1.0, -2.0]]


@pytest.mark.parametrize(
    ("firsts", "rest", "instruction"),
    [
        (["Play.\n\nYou see a", "Play.\n\nYou see b"], [], 7),
        (["Play.\n\nThen\n\nYou see a", "Play.\n\nThen\n\nLook"], [], 13),
        (["see a", "see b"], [], 0),
        (["R" * 100, "R" * 100], ["see"], 100),
        (["R" * 100], [], 0),
        ([".", "."], ["see"], 0),
    ],
)
def test_an_instruction_without_a_system_message(
    tmp_path: Path, firsts: list[str], rest: list[str], instruction: int
) -> None:
    turns = [
        turn(at, messages=[{"role": "user", "content": text} for text in [first, *rest]])
        for at, first in enumerate(firsts)
    ]
    assert read(tmp_path, turns)[0].chunk["instruction"] == instruction


def test_a_file_of_other_things_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "turns.parquet").write_bytes(b"no parquet")
    with pytest.raises(TurnFileError, match=r"turns\.parquet"):
        list(read_episodes(tmp_path / "turns.parquet"))


def test_numbers_are_short_and_finite() -> None:
    assert [number(value) for value in (1 / 3, 2e-9, float("nan"), float("inf"), None)] == [
        0.333333,
        2e-9,
        None,
        None,
        None,
    ]


def test_tokens_read_as_the_reply(tmp_path: Path) -> None:
    pieces = Pieces(tokenizer().backend_tokenizer)
    text = " go forward é 🜁!"
    ids = tokenizer().encode(text, add_special_tokens=False)
    texts = pieces.texts(ids)
    assert "".join(texts) == text
    assert len(texts) == len(ids)
    assert "🜁" in texts  # four tokens or so: the first has the character, the others nothing
    chunk = {"ids": [ids, ids[:2]]}
    add_pieces(chunk, pieces)
    assert "".join(chunk["vocabulary"][index] for index in chunk["tokens"][0]) == text


def test_the_tokenizer_of_the_newest_checkpoint_is_taken(tmp_path: Path) -> None:
    for step in (5, 10):
        tokenizer().save_pretrained(tmp_path / "run" / "checkpoints" / f"step-{step}")
    (tmp_path / "run" / "checkpoints" / "step-5" / "tokenizer.json").write_text("broken")
    assert find_tokenizer(tmp_path / "run", None) is not None
    assert find_tokenizer(tmp_path / "elsewhere", None) is None
    assert find_tokenizer(tmp_path / "elsewhere", str(tmp_path / "run" / "checkpoints" / "step-10")) is not None
    assert find_tokenizer(tmp_path / "elsewhere", "no/such-model") is None


def test_curves_are_columns(tmp_path: Path) -> None:
    write_run(tmp_path / "demo")
    found = curves(open_source(tmp_path / "demo"))
    metrics = dict(found["metrics"])
    assert found["update"] == [0, *range(1, 31), 30]
    assert metrics["episode/success"][:3] == [None, 0.0333333, 0.0666667]
    assert metrics["explained_variance"] == [None] * 32
    assert metrics["evaluation/after/babyai/goto/success"][-1] == 0.9


def test_the_table_of_a_run(tmp_path: Path) -> None:
    write_run(tmp_path / "demo")
    lines = table(open_source(tmp_path / "demo"))
    assert [line["player"] for line in lines[:2]] == ["uniformly random", "before training"]
    assert (lines[2]["success"], lines[2]["episodes"]) == (0.9, 100)
    assert lines[2]["success_ci95"] == [number(end) for end in figures(0.9)["success_ci95"]]


def bench_results() -> dict[str, object]:
    episodes = [{"number": 0, "seed": 9, "success": True, "progression": 1.0, "return": 0.5, "length": 2}]
    return {
        "kind": "bench",
        "model": "tiny",
        "tasks": {"babyai/goto": {**figures(0.5), "progression_se": 0.1, "episodes_list": episodes}},
        "games": {"babyai": {"progression": 50.0, "standard_error": 10.0, "episodes": 10}},
        "overall": {"progression": 95.0, "standard_error": 5.0},
    }


def test_the_table_of_a_benchmark(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps(bench_results()))
    source = open_source(tmp_path)
    lines = {line["task"]: line for line in table(source)}
    assert source.kind == "bench"
    assert lines["babyai/goto"]["progression_ci95"] == pytest.approx([0.304, 0.696])
    assert lines["babyai: all tasks"]["progression"] == 0.5
    assert lines["all games"]["progression_ci95"] == pytest.approx([0.852, 1.0])
    assert outcomes(source)["babyai/goto", 0]["success"] is True


def test_the_table_of_what_eval_wrote(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    file.write_text(json.dumps({"model": "m", "player": "greedy", "babyai/goto": figures(0.5), "versions": {"a": "1"}}))
    [line] = table(open_source(file))
    assert (line["task"], line["player"], line["success"]) == ("babyai/goto", "m, greedy", 0.5)
    for text in ("{", "[]", '{"episodes": 3}'):
        file.write_text(text)
        with pytest.raises(UserError, match="eval --out writes"):
            open_source(file)


def test_a_benchmarks_failed_episodes_are_errors(tmp_path: Path) -> None:
    results = {"kind": "bench", "tasks": {"babyai/goto": {"episodes": 0, "failed": 3}}}
    (tmp_path / "results.json").write_text(json.dumps(results))
    assert table(open_source(tmp_path))[0]["errors"] == 3


def test_broken_files_are_notes(tmp_path: Path) -> None:
    write_run(tmp_path / "demo")
    (tmp_path / "demo" / "results.json").write_text("{")
    source = open_source(tmp_path / "demo")
    assert "results.json cannot be read" in source.notes[0]
    assert table(source) == []


def test_turn_files_begin_with_the_last_evaluation(tmp_path: Path) -> None:
    write_run(tmp_path)
    for name in ("evaluation-before", "update-000025", "evaluation-update-10"):
        write_turns(tmp_path / "turns" / f"{name}.parquet", [turn(0)])
    stems = [path.stem for path in open_source(tmp_path).turn_files]
    assert stems == ["evaluation-after", "evaluation-before", "evaluation-update-10", "update-000025"]


@pytest.mark.parametrize("name", ["absent", "empty"])
def test_what_is_no_source_is_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=name):
        open_source(tmp_path / name)
