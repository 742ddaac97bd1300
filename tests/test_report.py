"""The report: whole from any state of a run directory, self-contained, and safe to open whatever a model wrote."""

import json
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from run_folders import Page, figures, turn, write_run

from agentrl.report import ReportWriter, render, write_report
from agentrl.report_episodes import visible
from agentrl.turn_files import write_turns


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


def test_report_writer_writes_at_the_end_on_the_main_process(tmp_path: Path) -> None:
    write_run(tmp_path)
    ReportWriter().on_end(SimpleNamespace(is_main=False, run_dir=tmp_path))
    assert not (tmp_path / "report.html").exists()
    ReportWriter().on_end(SimpleNamespace(is_main=True, run_dir=tmp_path))
    assert (tmp_path / "report.html").exists()
