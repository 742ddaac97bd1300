"""The report: whole from any state of a run directory, self-contained, and safe to open whatever a model wrote."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.config import Config
from agentrl.configfile import dump_config
from agentrl.records import Message, Turn
from agentrl.report import ReportWriter, charts, metric_rows, render, write_report
from agentrl.report_bars import length_histogram, unlock_rates
from agentrl.report_charts import FRAME, MAX_POINTS, Chart, ChartSpec, Mark, draw, number, ticks
from agentrl.report_episodes import MAX_HEAD, MAX_TAIL, MAX_TEXT, read_episodes, shorten, visible
from agentrl.statistics import wilson
from agentrl.turn_files import write_turns

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """Tags with attributes, text, and whether every element is closed where it should be."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += data

    @property
    def words(self) -> str:
        return " ".join(self.text.split())

    def names(self) -> list[str]:
        return [tag for tag, _ in self.tags]


def figures(success: float | None, episodes: int = 100) -> dict[str, Any]:
    return {
        "episodes": episodes,
        "success": success,
        "success_ci95": list(wilson(round(success * episodes), episodes)) if success is not None else None,
        "return": 0.5 if success is None else success * 0.9,
        "return_ci95": [0.4, 0.625],
        "progression": success,
        "length": 12.25,
        "invalid_fraction": 0.125,
        "errors": 3,
    }


def turn(number: int = 0, **changes: Any) -> Turn:
    messages: list[Message] = [
        {"role": "system", "content": "The rules."},
        {"role": "user", "content": f"scene {number - 1}"},
        {"role": "assistant", "content": "go forward"},
        {"role": "user", "content": f"scene {number}"},
    ]
    plain = Turn("babyai/goto", 0, 0, number, 9, [1, 2, 3], [4], [-0.5], [()], messages=messages, action="turn left")
    return replace(plain, **{"reply_text": f"reply {number}", **changes})


def write_run(run_dir: Path, name: str = "demo", task: str = "babyai/goto") -> None:
    """A finished run of 30 updates, 4 of them critic warm-up."""
    run_dir.mkdir(parents=True, exist_ok=True)
    sections = {"batch": {"updates": 26}, "critic_warmup": {"max_updates": 8}}
    (run_dir / "config.yaml").write_text(
        dump_config(Config.model_validate({"name": name, "game": {"id": task}, **sections}))
    )
    rows: list[dict[str, Any]] = [{"update": 0, "evaluation/before/babyai/goto/success": 0.25}]
    for update in range(1, 31):
        row = {"update": update, "turns": update * 64.0, "phase/critic_warmup": float(update <= 4)}
        rows.append({**row, "episode/success": update / 30, "lr/policy": 0.001, "explained_variance": None})
    rows.append(
        {"update": 30, "evaluation/after/babyai/goto/success": 0.9, "evaluation/after/babyai/goto/episodes": 100}
    )
    (run_dir / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    results = {
        "random": {task: figures(0.2)},
        "before": {task: figures(0.25)},
        "after": {task: figures(0.9)},
        "after_greedy": {task: figures(0.95)},
        "update-10": {task: figures(0.5)},
        "seconds": 3723.0,
        "cpu_seconds": 75.2,
        "turns": 1920,
        "machine": "2 cores",
        "versions": {"torch": "2.13.0"},
    }
    (run_dir / "results.json").write_text(json.dumps(results))
    write_turns(run_dir / "turns" / "evaluation-after.parquet", [turn(0), turn(1, terminated=True, reward=0.9)])


def test_a_whole_run(tmp_path: Path) -> None:
    write_run(tmp_path)
    path = write_report(tmp_path)
    assert path == tmp_path / "report.html"
    assert not list(tmp_path.glob(".*"))
    page = Page(path.read_text(encoding="utf-8"))
    words = page.words
    assert "Not finished" not in words
    assert "Success on held-out episodes of babyai/goto 0.25 → 0.90" in words
    assert "95 % intervals [0.18, 0.34] → [0.83, 0.94]" in words
    assert (
        "updates 30, 4 of them critic warm-up turns 1,920 time, evaluations included 1 h 2 min "
        "CPU time of training alone 1 min 15 s machine 2 cores seed 0" in words
    )
    assert "after training 100 0.90 [0.83, 0.94] 0.81 [0.40, 0.62] 0.90 12.2 0.125 3" in words
    # In the order of the story, and nothing of the evaluations underway.
    players = re.findall(
        r"(uniformly random|before training|after training, greedy|after training|update-10) 100", words
    )
    assert players == ["uniformly random", "before training", "after training", "after training, greedy"]
    assert "Episode 1 babyai/goto, seed 9 2 turns return 0.90 ended by the game" in words
    assert "torch 2.13.0" in words
    assert "critic_warmup:" in words
    assert "Other metrics (1)" in words


def test_it_is_self_contained(tmp_path: Path) -> None:
    write_run(tmp_path)
    html = render(tmp_path)
    page = Page(html)
    assert not set(page.names()) & {"script", "link", "img", "iframe", "object", "embed", "base", "form", "a"}
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "href", "xlink:href")], tag
    assert "http:" not in html
    assert "https:" not in html
    assert "url(" not in html
    assert "@import" not in html
    policy = [a["content"] for t, a in page.tags if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]


HOSTILE = "</title></style></pre></svg><script>alert(1)</script>\"' onload='x()' \x1b[2J\u202e{{ 7*7 }}<!--"


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    write_run(tmp_path)
    clean = Page(render(tmp_path))
    write_run(tmp_path, task=HOSTILE)
    config = {
        "name": HOSTILE,
        "game": {"id": HOSTILE},
        "model": {"path": HOSTILE},
        HOSTILE: HOSTILE,
        "batch": {"updates": 26},
    }
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    metrics = (tmp_path / "metrics.jsonl").read_text().replace("lr/policy", json.dumps(HOSTILE)[1:-1])
    metrics = metrics.replace("babyai/goto/success", json.dumps(HOSTILE)[1:-1] + "/success")
    (tmp_path / "metrics.jsonl").write_text(metrics)
    results = json.loads((tmp_path / "results.json").read_text())
    results["after"][HOSTILE] |= {"length": HOSTILE, "success": HOSTILE, "success_ci95": [HOSTILE, HOSTILE]}
    results["after"][HOSTILE] |= {"achievements": HOSTILE, "achievements_ci95": HOSTILE, "score": HOSTILE}
    results["after"][HOSTILE] |= {"achievement_rates": {HOSTILE: 0.5, "x": HOSTILE}, "lengths": [3, HOSTILE, None, 9]}
    results |= {"machine": HOSTILE, "seeds": [HOSTILE], "versions": {HOSTILE: HOSTILE}, HOSTILE: results["before"]}
    (tmp_path / "results.json").write_text(json.dumps(results))
    messages = [{"role": HOSTILE, "content": HOSTILE}] * 3
    hostile = {"messages": messages, "action": HOSTILE, "reply_text": HOSTILE}
    turns = [turn(0, **hostile), turn(1, **hostile, error=HOSTILE)]
    write_turns(tmp_path / "turns" / "evaluation-after.parquet", [replace(t, game=HOSTILE) for t in turns])
    (tmp_path / "turns" / "evaluation-<mark>.parquet").write_bytes(b"no parquet")

    html = render(tmp_path)
    page = Page(html)
    assert set(page.names()) <= set(clean.names()) | {"ul", "li"}
    assert f"{visible(HOSTILE).split()[-1]} 50 %" in page.words
    assert page.names().count("style") == 1
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on")], tag
    shown = visible(HOSTILE)
    # Title, heading, game, model, config.yaml, task, machine, versions, player, turns, metric name and its SVG titles.
    assert page.text.count(shown) >= 20
    assert any(attributes.get("aria-label") == shown for tag, attributes in page.tags if tag == "svg")
    assert "3 turns: 1 of 2 episodes" in page.text
    for hidden in ("<script", "</title></style>", "\x1b", "\u202e", "<mark>", "<!--", " 49"):
        assert hidden not in html, hidden


def test_the_template_never_opts_out_of_escaping() -> None:
    template = (files("agentrl") / "templates" / "report.html.j2").read_text(encoding="utf-8")
    statements = "".join(re.findall(r"{[{%].*?[%}]}", template, re.S))
    assert not re.search(r"\bsafe\b|autoescape|Markup|tojson|xmlattr", statements)


def test_an_empty_run_directory(tmp_path: Path) -> None:
    run_dir = tmp_path / "barely-begun"
    run_dir.mkdir()
    words = Page(write_report(run_dir).read_text()).words
    assert "barely-begun A model, trained on a game Not finished: 0 policy updates done" in words
    assert "No update is finished yet." in words
    assert "Before and after" not in words


@pytest.mark.parametrize("name", ["config.yaml", "metrics.jsonl", "results.json", "turns/evaluation-after.parquet"])
@pytest.mark.parametrize("damage", ["absent", "garbage", "not UTF-8", "another shape"])
def test_any_file_may_be_absent_or_broken(name: str, damage: str, tmp_path: Path) -> None:
    write_run(tmp_path)
    path = tmp_path / name
    content = {"garbage": b"{ : [\n{}\n", "not UTF-8": b"\xff\xfe: \xff\n{}\n", "another shape": b"[1, 2]\n"}
    path.unlink() if damage == "absent" else path.write_bytes(content[damage])
    page = Page(render(tmp_path))
    notes = [tag for tag, attributes in page.tags if attributes.get("class") == "notes"]
    told = damage in ("garbage", "not UTF-8") or (damage == "another shape" and path.suffix == ".parquet")
    assert len(notes) == told
    assert not told or path.name in page.words
    assert str(tmp_path) not in page.text


def test_an_interrupted_run(tmp_path: Path) -> None:
    write_run(tmp_path)
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "metrics.jsonl").write_text("".join(lines[:15]) + '{"update": 15, "tu')
    results = json.loads((tmp_path / "results.json").read_text())
    (tmp_path / "results.json").write_text(json.dumps({"before": results["before"]}))
    words = Page(render(tmp_path)).words
    assert "Not finished: 10 of 26 policy updates done" in words
    assert "0.25 → \N{EN DASH}" in words
    assert "[0.18, 0.34] → \N{EN DASH}" in words


def test_a_game_without_success_is_judged_by_its_return(tmp_path: Path) -> None:
    write_run(tmp_path)
    results = {"before": {"crafter": figures(None)}, "after": {"crafter": {**figures(None), "return": 2.5}}}
    (tmp_path / "results.json").write_text(json.dumps(results))
    assert "Return on held-out episodes of crafter 0.50 → 2.50" in Page(render(tmp_path)).words


def achieving(mean: float, **rates: float) -> dict[str, Any]:
    figures_ = figures(None) | {"achievements": mean, "achievements_ci95": [mean - 0.25, mean + 0.25], "score": 7.654}
    return figures_ | {"achievement_rates": rates, "lengths": [30, 400, 400, 100 * round(mean)]}


def test_a_game_with_achievements(tmp_path: Path) -> None:
    write_run(tmp_path)
    assert "achievements" not in Page(render(tmp_path)).words
    assert "Episodes by their length" not in Page(render(tmp_path)).words
    results = {
        "random": {"cave": figures(None)},
        "before": {"cave": achieving(2.5, drink=0.4, sapling=0.2, coal=0.0)},
        "after": {"cave": achieving(5.25, drink=0.4, sapling=1.0, coal=0.125)},
    }
    (tmp_path / "results.json").write_text(json.dumps(results))
    page = Page(render(tmp_path))
    assert "Achievements an episode on held-out episodes of cave 2.50 → 5.25" in page.words
    assert "95 % intervals [2.25, 2.75] → [5.00, 5.50]" in page.words
    assert page.names().count("th") == 9 + 3  # no column of success
    words = page.words.replace("\N{EN DASH}", "none")
    assert "before training 100 0.50 [0.40, 0.62] none 2.50 [2.25, 2.75] 7.65 % 12.2" in words
    assert "uniformly random 100 0.50 [0.40, 0.62] none none none 12.2" in words
    rates = "Episodes that unlock it before training after training sapling 20 → 100 % drink 40 → 40 % coal 0 → 12 %"
    assert rates in page.words
    bars = [(a["class"], a["style"]) for tag, a in page.tags if tag == "i" and a.get("style")]
    assert bars == [
        *(("before", "width:20.0%"), ("after", "width:100.0%")),
        *(("before", "width:40.0%"), ("after", "width:40.0%")),
        *(("before", "width:0.0%"), ("after", "width:12.5%")),
    ]
    assert "before training, 400 to 449 turns: 2 of 4 episodes" in page.text
    assert "after training, 500 to 549 turns: 1 of 4 episodes" in page.text


def test_an_unfinished_run_shows_what_was_unlocked_before(tmp_path: Path) -> None:
    write_run(tmp_path)
    (tmp_path / "results.json").write_text(json.dumps({"before": {"cave": achieving(2.5, coal=0.25)}}))
    assert "Episodes that unlock it before training coal 25 %" in Page(render(tmp_path)).words


def test_achievements_are_a_curve() -> None:
    prefix = "evaluation/after/cave"
    rows = metric_rows([{"update": 4, "episode/achievements": 4.5, f"{prefix}/achievements": 5.0}])
    (chart,) = charts(rows)["Learning"]
    assert (chart.title, len(chart.lines), len(chart.marks)) == ("Achievements an episode", 1, 1)


def test_unlock_rates_are_sorted_by_the_last_player() -> None:
    groups = {"before": {"achievement_rates": {"a": 0.5, "b": 0.25, "c": 0.0}}}
    assert [row.name for row in unlock_rates(groups)] == ["a", "b", "c"]
    groups["after"] = {"achievement_rates": {"a": 0.5, "b": 0.5, "d": 1.0}}
    assert [(row.name, row.percents) for row in unlock_rates(groups)] == [
        ("d", {"before": 0.0, "after": 100.0}),
        ("a", {"before": 50.0, "after": 50.0}),
        ("b", {"before": 25.0, "after": 50.0}),
        ("c", {"before": 0.0, "after": 0.0}),
    ]
    odd: dict[str, Any] = {"before": {"achievement_rates": ["a"]}, "after": {"achievement_rates": {"a": 2, "b": True}}}
    assert unlock_rates(odd) == []


def test_length_histogram_by_hand() -> None:
    # Lengths 1 to 4, bins of one turn; the highest, 3 of 4 episodes, is 75 % on an axis to 80 %.
    found = length_histogram({"before": {"lengths": [1, 1, 1, 4]}, "after": {"lengths": [2, 4]}})
    assert found is not None
    unit, height = (FRAME.right - FRAME.left) / 4, FRAME.bottom - FRAME.top
    assert found.players == ["before", "after"]
    assert [label for _, label in found.y_ticks] == ["0 %", "20 %", "40 %", "60 %", "80 %"]
    assert [(bar.player, bar.title.partition(", ")[2]) for bar in found.bars] == [
        ("before", "1 turn: 3 of 4 episodes"),
        ("before", "4 turns: 1 of 4 episodes"),
        ("after", "2 turns: 1 of 2 episodes"),
        ("after", "4 turns: 1 of 2 episodes"),
    ]
    for bar, (place, share) in zip(found.bars, [(0.08, 75), (3.08, 25), (1.5, 50), (3.5, 50)], strict=True):
        assert bar.x == pytest.approx(FRAME.left + place * unit, abs=0.06)
        assert bar.width == pytest.approx(0.42 * unit, abs=0.06)
        assert bar.height == pytest.approx(share / 80 * height, abs=0.06)
        assert bar.y + bar.height == pytest.approx(FRAME.bottom, abs=0.11)
    for odd in ([], [5, 5, 5], "5", [None, "x", True, -1, 3], None):
        assert length_histogram({"after": {"lengths": odd}}) is None


@given(st.lists(st.integers(0, 12_000), min_size=1), st.lists(st.integers(0, 600)))
def test_every_episode_is_in_a_bin_of_the_histogram(before: list[int], after: list[int]) -> None:
    found = length_histogram({"before": {"lengths": before}, "after": {"lengths": after}})
    if found is None:
        assert len({*before, *after}) == 1
        return
    counted = {"before": 0, "after": 0}
    for bar in found.bars:
        counted[bar.player] += int(bar.title.partition(": ")[2].partition(" of ")[0])
        assert FRAME.left <= bar.x <= bar.x + bar.width <= FRAME.right + 0.1
        assert FRAME.top - 0.1 <= bar.y <= bar.y + bar.height <= FRAME.bottom + 0.11
        ends = [int(n) for n in re.findall(r"\d+", bar.title.partition(": ")[0].replace(",", ""))]
        inside = [n for n in (before if bar.player == "before" else after) if ends[0] <= n <= ends[-1]]
        assert bar.title.partition(": ")[2].startswith(f"{len(inside)} of ")
    assert counted == {"before": len(before), "after": len(after)}
    assert all(FRAME.left <= x <= FRAME.right + 0.1 for x, _ in found.x_ticks)


def test_report_writer_writes_at_the_end_on_the_main_process(tmp_path: Path) -> None:
    write_run(tmp_path)
    ReportWriter().on_end(SimpleNamespace(is_main=False, run_dir=tmp_path))
    assert not (tmp_path / "report.html").exists()
    ReportWriter().on_end(SimpleNamespace(is_main=True, run_dir=tmp_path))
    assert (tmp_path / "report.html").exists()


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


def test_rows_of_one_update_are_merged_and_what_is_no_number_is_none() -> None:
    raw: list[dict[str, Any]] = [
        {"update": 2, "a": 1},
        {"update": 1, "a": float("nan"), "b": "x"},
        {"update": 2, "b": 1e300, "c": True},
    ]
    assert metric_rows(raw) == [
        {"update": 1.0, "a": None, "b": None},
        {"update": 2.0, "a": 1.0, "b": None, "c": None},
    ]


def test_chart_geometry_by_hand() -> None:
    rows = [
        {"update": u, "m": v, "phase/critic_warmup": float(u in (2, 3))}
        for u, v in ((1, 0.0), (2, 1.0), (3, 0.5), (5, 1.0))
    ]
    chart = draw(ChartSpec("m", {"m": "m"}, limits=(0, 1), whole=True), rows)
    assert chart is not None
    # Updates 1..5 span left..right, values 0..1 bottom..top.
    unit = (FRAME.right - FRAME.left) / 4
    x = [round(FRAME.left + unit * (u - 1), 1) for u in (1, 2, 3, 5)]
    y = [FRAME.bottom, FRAME.top, (FRAME.top + FRAME.bottom) / 2, FRAME.top]
    assert chart.lines[0].raw == "M" + "L".join(f"{a:g} {b:g}" for a, b in zip(x, y, strict=True))
    assert chart.lines[0].smooth == chart.lines[0].raw
    assert chart.lines[0].band == ""
    assert chart.lines[0].last == "1"
    assert chart.warmup == [(round(FRAME.left + unit / 2, 1), round(2 * unit, 1))]
    assert [label for _, label in chart.x_ticks] == ["1", "2", "3", "4", "5"]
    assert [label for _, label in chart.y_ticks] == ["0", "0.2", "0.4", "0.6", "0.8", "1"]
    assert chart.hover[0] == (FRAME.left, round(unit / 2, 1), "update 1: m 0")


def test_a_long_curve_is_binned_with_its_band() -> None:
    rows = [{"update": u, "m": float(u % 2)} for u in range(10 * MAX_POINTS)]
    chart = draw(ChartSpec("m", {"m": "m"}), rows)
    assert chart is not None
    (line,) = chart.lines
    assert line.raw == ""
    assert line.smooth.count("L") == MAX_POINTS - 1
    assert {float(point.split()[1]) for point in line.smooth[1:].split("L")} == {(FRAME.top + FRAME.bottom) / 2}
    assert f" {FRAME.top:g}" in line.band
    assert f" {FRAME.bottom:g}" in line.band


def test_evaluations_are_marked_with_their_interval() -> None:
    prefix = "evaluation/after/babyai/goto"
    rows = metric_rows(
        [
            {"update": 0, "evaluation/random/g/success": 0.1, "evaluation/before_greedy/g/success": 0.2},
            {"update": 4, "episode/success": 0.5, f"{prefix}/success": 0.75, f"{prefix}/episodes": 8},
        ]
    )
    (chart,) = charts(rows)["Learning"]
    (mark,) = chart.marks
    low, high = wilson(6, 8)
    height = FRAME.bottom - FRAME.top
    assert (mark.y_low, mark.y_high) == (
        pytest.approx(FRAME.bottom - low * height, abs=0.06),
        pytest.approx(FRAME.bottom - high * height, abs=0.06),
    )
    assert mark.title == "after, babyai/goto: 0.75"


def test_what_is_not_there_is_not_drawn() -> None:
    assert charts([]) == {}
    assert draw(ChartSpec("m", {"m": "m"}), [{"update": 1.0, "m": None}, {"update": 2.0}]) is None
    groups = charts([{"update": 1.0, "turns": 5.0, "phase/critic_warmup": 0.0, "entropy": 1.5}])
    assert {heading: [chart.title for chart in drawn] for heading, drawn in groups.items()} == {
        "Optimisation": ["Entropy"]
    }


VALUES = st.none() | st.floats(-1e30, 1e30)


@given(st.lists(st.tuples(VALUES, VALUES), max_size=30), st.sampled_from([None, (0.0, 1.0)]), st.booleans(), VALUES)
def test_every_chart_stays_in_its_frame(
    values: list[tuple[float | None, float | None]], limits: tuple[float, float] | None, whole: bool, mark: float | None
) -> None:
    rows = [{"update": float(u), "a": a, "b": b} for u, (a, b) in enumerate(values)]
    marks = [] if mark is None else [Mark(3.0, mark, mark - 1, mark + 1, "t")]
    chart = draw(ChartSpec("t", {"a": "A", "b": "B"}, limits, whole), rows, marks)
    if chart is None:
        assert not marks
        assert all(a is None and b is None for a, b in values)
        return
    for x, y in _places(chart):
        assert FRAME.left <= x <= FRAME.right
        assert FRAME.top <= y <= FRAME.bottom
    assert 2 <= len(chart.y_ticks) <= 7


def _places(chart: Chart) -> list[tuple[float, float]]:
    paths = [path for line in chart.lines for path in (line.raw, line.band, line.smooth)]
    points = [pair for path in paths for pair in re.findall(r"(-?[\d.e+]+) (-?[\d.e+]+)", path)]
    marks = [(mark.x, y) for mark in chart.marks for y in (mark.y, mark.y_low, mark.y_high)]
    return [(float(x), float(y)) for x, y in points] + marks + [(FRAME.left, y) for y, _ in chart.y_ticks]


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))
def test_ticks_enclose_the_range_with_few_round_numbers(low: float, size: float) -> None:
    high = low + size
    if high - low < 1e-6 * abs(low):
        return
    found = ticks(low, high)
    assert found[0] <= low + 1e-6 * size
    assert found[-1] >= high - 1e-6 * size
    assert 2 <= len(found) <= 7


def test_numbers_are_short() -> None:
    given_ = [0, 0.05123, 12.345, 999.6, 1024, 20480, 999999, 1.5e6, 2e9, 1.2e-5, -0.25]
    shown = ["0", "0.0512", "12.3", "1000", "1024", "20.5k", "1000k", "1.5M", "2G", "1.2e-5", "-0.25"]
    assert [number(value) for value in given_] == shown
