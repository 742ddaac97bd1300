"""The page in a real browser: keys, filters, hostile text, a live run."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from run_folders import turn, write_run
from tiny import tokenizer
from view_browser import Browser, browser, find_browser
from viewed_turns import HOSTILE, hostile_turns, played

from agentrl.episode_frames import replay
from agentrl.turn_files import write_turns
from agentrl.view import View
from agentrl.view_server import make_server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_browser() is None, reason="no Chromium here: apt-get install chromium"),
]

BABYAI = "babyai/BabyAI-GoToLocalS5N2-v0"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a folder with two runs: one that was really played, one in which everything is hostile."""
    folder = tmp_path_factory.mktemp("viewed")
    write_run(folder / "demo")
    tokenizer().save_pretrained(folder / "demo" / "checkpoints" / "step-30")
    turns = [one for slot in range(8) for one in played(BABYAI, seed=slot, slot=slot)]
    ids = tokenizer().encode("go forward", add_special_tokens=False)
    for one in turns:
        one.reply_ids, one.reply_text = ids, "go forward"
        one.reply_logprobs = [-2.0] + [0.0] * (len(ids) - 1)
        one.reply_legal = [()] + [(token,) for token in ids[1:]]
        one.value, one.advantage = 0.5, 0.25 - 0.5 * (one.turn % 2)
    write_turns(folder / "demo" / "turns" / "evaluation-after.parquet", turns)
    write_run(folder / "evil", task=HOSTILE[0])
    (folder / "evil" / "config.yaml").write_text(json.dumps({"name": HOSTILE[1]}))
    (folder / "evil" / "turns" / "evaluation-after.parquet").unlink()
    write_turns(folder / "evil" / "turns" / f"evaluation-{HOSTILE[0].replace('/', '')}.parquet", hostile_turns())
    with (folder / "evil" / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"update": 31, **dict.fromkeys(HOSTILE, 1.0), "__proto__": 2.0}) + "\n")
    View([folder / "demo", folder / "evil"], folder / "page", frames=8).refresh()
    return (folder / "page" / "index.html").as_uri()


@pytest.fixture(autouse=True)
def _no_complaints(chromium: Browser) -> Iterator[None]:
    """No script error, no refused request, no dialog, and nothing hostile ran."""
    chromium.said.clear()
    yield
    assert chromium.js("window.pwned") is None
    assert chromium.js("({}).update") is None
    assert chromium.said == []


def test_curves_overlay_runs(chromium: Browser, page: str) -> None:
    chromium.open(page)
    assert chromium.js("document.querySelectorAll('.source').length") == 2
    assert chromium.js("document.querySelector('#metric').value") == "episode/success"
    # Charts are drawn once the page knows how wide they are.
    pixels = "(c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.filter(Boolean).length)"
    drawn = f"{pixels}(document.querySelector('.big canvas')) > 2000"
    chromium.wait(drawn)
    chromium.js("document.querySelectorAll('.source input')[1].click()")
    chromium.wait(drawn)
    chromium.js("document.querySelectorAll('.source input')[0].click()")
    assert "No curves" not in chromium.text("main")
    for box in (0, 1):
        chromium.js(f"document.querySelectorAll('.source input')[{box}].click()")
    chromium.wait(drawn)
    point = "canvas.dispatchEvent(new PointerEvent('pointermove', {clientX: canvas.getBoundingClientRect().left + 700, bubbles: true}))"  # noqa: E501
    chromium.js(f"(canvas => {point})(document.querySelector('.big canvas'))")
    assert "demo" in chromium.text(".big .tip")


def test_smoothing_is_a_mean_of_the_past(chromium: Browser, page: str) -> None:
    chromium.open(page)
    assert chromium.js("agentrl.smooth([1, null, 3], 0.5)") == [1, None, pytest.approx(7 / 3)]


def test_tasks_with_intervals(chromium: Browser, page: str) -> None:
    chromium.open(f"{page}#tasks")
    assert "0.9 [0.8" in chromium.text("#tasks")
    assert chromium.js("document.querySelectorAll('#tasks tbody tr').length") == 10


def test_episodes_are_filtered_and_sorted(chromium: Browser, page: str) -> None:
    chromium.open(f"{page}#episodes")
    assert chromium.text("#count") == "9 of 9 episodes"
    change = "(id, value) => { const e = document.getElementById(id); e.value = value; e.dispatchEvent(new Event('input')); e.dispatchEvent(new Event('change')); }"  # noqa: E501
    chromium.js(f"window.change = {change}; 0")
    chromium.js("change('filter-success', 'yes')")
    won = int(chromium.text("#count").split()[0])
    chromium.js("change('filter-success', 'no')")
    assert won + int(chromium.text("#count").split()[0]) == 8
    chromium.js("change('filter-success', ''); change('filter-words', 'seed:3')")
    assert chromium.text("#count") == "1 of 9 episodes"
    chromium.js("change('filter-words', '')")
    chromium.js("document.querySelector('[data-sort=length]').click()")
    lengths = [
        int(text) for text in chromium.js("[...document.querySelectorAll('.list .length')].map(e => e.textContent)")
    ]
    assert lengths == sorted(lengths)
    chromium.press("ArrowDown")
    chromium.press("Enter")
    chromium.wait("document.querySelector('#turn-label')")
    assert chromium.js("location.hash").startswith("#e/")


def test_the_player_steps_with_keys(chromium: Browser, page: str) -> None:
    chromium.open(f"{page}#e/0/evaluation-after/2/3")
    chromium.wait("document.querySelector('#turn-label')")
    last = int(chromium.text("#turn-label").rpartition("\u2013")[2])
    assert chromium.text("#turn-label").startswith("turn 3 of")
    for key, turn_shown in [("ArrowRight", 4), ("j", 5), ("k", 4), ("ArrowLeft", 3), ("End", last), ("Home", 0)]:
        chromium.press(key)
        assert chromium.text("#turn-label").startswith(f"turn {turn_shown} of"), key
    chromium.press(" ")
    chromium.wait("!document.querySelector('#turn-label').textContent.startsWith('turn 0')")
    chromium.press(" ")
    chromium.press("]")
    chromium.wait("location.hash.startsWith('#e/0/evaluation-after/3')")
    chromium.press("Escape")
    chromium.wait("document.querySelector('#list')")
    chromium.press("?")
    assert chromium.js("document.querySelector('#help').open")


def test_the_player_shows_the_turn(chromium: Browser, page: str) -> None:
    chromium.open(f"{page}#e/0/evaluation-after/2/3")
    chromium.wait("document.querySelector('#reply .token')")
    assert chromium.text("#reply") == "go forward"
    assert chromium.js("document.querySelectorAll('#prompt .part.past').length") == 2
    assert chromium.text("#prompt .part.instruction .words") == "Rules."
    assert "wall" in chromium.text("#prompt .part.current .words")
    shades = "[...document.querySelectorAll('.token')].map(e => e.style.background)"
    by_logprob = chromium.js(shades)
    assert by_logprob[0] != ""
    assert set(by_logprob[1:]) == {""}  # the only legal token
    assert "logprob -2," in chromium.js("document.querySelector('.token').title")
    chromium.press("t")
    assert all("--bad" in shade for shade in chromium.js(shades))  # turn 3: worse than expected
    chromium.press("j")
    assert all("--good" in shade for shade in chromium.js(shades))
    assert "0.25" in chromium.text("#facts")


def test_many_past_turns_are_folded(chromium: Browser, tmp_path: Path) -> None:
    write_run(tmp_path / "demo")
    said = [{"role": role, "content": f"{role} {at}"} for at in range(6) for role in ("user", "assistant")]
    turns = [turn(at, messages=[*said, {"role": "user", "content": f"now {at}"}]) for at in range(2)]
    write_turns(tmp_path / "demo" / "turns" / "evaluation-after.parquet", turns)
    View([tmp_path / "demo"], tmp_path / "page", frames=0).refresh()
    chromium.open((tmp_path / "page" / "index.html").as_uri() + "#e/0/evaluation-after/0")
    chromium.wait("document.querySelector('#prompt details')")
    assert "12 messages" in chromium.text("#prompt details summary")
    assert chromium.js("document.querySelectorAll('#prompt details .part').length") == 12
    assert chromium.text("#prompt > .current .words") == "now 0"
    chromium.js("document.querySelector('#prompt details').open = true")
    chromium.wait("document.querySelector('#prompt details').open")
    chromium.press("j")
    assert chromium.js("document.querySelector('#prompt details').open")


def test_the_picture_is_the_games_own(chromium: Browser, page: str, tmp_path: Path) -> None:
    chromium.open(f"{page}#e/0/evaluation-after/2/3")
    chromium.wait("document.querySelector('#game') && !document.querySelector('#game').hidden")
    chromium.wait("document.querySelector('#game').getContext('2d').getImageData(80, 80, 1, 1).data[3] === 255")
    data = chromium.js(
        "(() => { const c = document.querySelector('#game'); "
        "return [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data]; })()"
    )
    drawn = np.array(data, dtype=np.uint8).reshape(160, 160, 4)[:, :, :3]
    turns = played(BABYAI, seed=2)
    found = replay(BABYAI, {}, 2, [one.action for one in turns], [one.reward for one in turns])
    Image.fromarray(drawn).save(tmp_path / "drawn.png")
    assert np.array_equal(drawn, found.frames[3])


@pytest.mark.parametrize("view", ["#curves", "#tasks", "#episodes"])
def test_hostile_text_is_text(chromium: Browser, page: str, view: str) -> None:
    chromium.open(page + view)
    assert chromium.js("document.querySelectorAll('main img, main script, header img, header script').length") == 0
    assert HOSTILE[1] in chromium.text("header")


def test_a_hostile_episode_is_shown_harmlessly(chromium: Browser, page: str) -> None:
    stem = HOSTILE[0].replace("/", "")
    chromium.open(f"{page}#e/1/evaluation-{stem}/0/0".replace("<", "%3C").replace(">", "%3E").replace(" ", "%20"))
    chromium.wait("document.querySelector('#reply')")
    for number, evil in enumerate(HOSTILE):
        shown = chromium.text("#prompt")
        if number != 4:  # the one with control characters, which is looked at below
            assert evil.replace("\u2028", "⟨U+2028⟩").replace("\u2029", "⟨U+2029⟩") in shown
        assert not set(shown) & set("\x00\x07\x1b\u202e")
        assert chromium.js("document.querySelectorAll('main img, main script').length") == 0
        chromium.press("j")
    assert chromium.text("#turn-label").startswith("turn 6")
    assert "error" in chromium.text("#facts")
    chromium.press("Home")
    for _ in range(4):
        chromium.press("j")
    assert "␛[31mred␛[2J␇␀ ⟨U+202E⟩gnp.exe" in chromium.text("#prompt .part.current .words")


def test_a_line_of_a_megabyte_is_cut_and_can_be_shown(chromium: Browser, page: str) -> None:
    stem = HOSTILE[0].replace("/", "")
    chromium.open(f"{page}#e/1/evaluation-{stem}/0/0".replace("<", "%3C").replace(">", "%3E").replace(" ", "%20"))
    chromium.wait("document.querySelector('#prompt .more')")
    assert len(chromium.text("#prompt .part.current .words")) < 21_000
    chromium.js("document.querySelector('#prompt .more').click()")
    assert len(chromium.text("#prompt .part.current .words")) > 1_000_000


def test_lone_surrogates_become_signs(chromium: Browser, page: str) -> None:
    chromium.open(page)
    assert chromium.js("agentrl.visible('a\\ud800b\\udc00c😀')") == "a⟨U+D800⟩b⟨U+DC00⟩c😀"


@pytest.mark.parametrize("address", ["#e/0/evaluation-after/99", "#e/x/%E0%A4%A/1", "#nonsense"])
def test_an_address_that_leads_nowhere(chromium: Browser, page: str, address: str) -> None:
    chromium.open(page + address)
    assert chromium.js("document.querySelector('main').childElementCount") >= 1


@pytest.mark.parametrize(("width", "dark"), [(800, False), (1280, True)])
def test_nothing_overflows(chromium: Browser, page: str, width: int, dark: bool) -> None:
    for view in ("#curves", "#tasks", "#episodes", "#e/0/evaluation-after/2/3"):
        chromium.open(page + view, width=width, dark=dark)
        assert chromium.js("document.documentElement.scrollWidth") <= width, view
    background = chromium.js("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(20, 22, 27)") == dark


def test_the_list_holds_two_thousand_episodes_and_few_rows(chromium: Browser, tmp_path: Path) -> None:
    write_run(tmp_path / "demo")
    turns = [turn(0, slot=slot, seed=slot, terminated=True) for slot in range(2000)]
    write_turns(tmp_path / "demo" / "turns" / "evaluation-after.parquet", [*turns])
    View([tmp_path / "demo"], tmp_path / "page", frames=0).refresh()
    chromium.open((tmp_path / "page" / "index.html").as_uri() + "#episodes")
    assert chromium.text("#count") == "2,000 of 2,000 episodes"
    assert chromium.js("document.querySelectorAll('.list .row').length") < 60
    chromium.press("End")
    chromium.wait("[...document.querySelectorAll('.list .row .number')].some(e => e.textContent === '1999')")
    chromium.press("Enter")
    chromium.wait("document.querySelector('#facts')")
    assert "seed 1999" in chromium.text("main")


def test_a_live_page_appends(chromium: Browser, tmp_path: Path) -> None:
    write_run(tmp_path / "demo")
    (tmp_path / "demo" / "results.json").unlink()
    server = make_server(View([tmp_path / "demo"], tmp_path / "page", frames=0), 0)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        chromium.open(f"http://127.0.0.1:{server.server_port}/index.html#curves")
        assert chromium.text("#live") == "● live"
        last = "agentrl.state.sources[0].curves.update.at(-1)"
        assert chromium.js(last) == 30
        with (tmp_path / "demo" / "metrics.jsonl").open("a") as file:
            file.write(json.dumps({"update": 31, "turns": 1984.0, "episode/success": 1.0}) + "\n")
        write_turns(tmp_path / "demo" / "turns" / "evaluation-after_greedy.parquet", played(BABYAI, seed=4))
        chromium.wait(f"{last} === 31")
        chromium.js("location.hash = '#e/0/evaluation-after_greedy/0'")
        # Its picture is drawn because it was opened.
        chromium.wait("document.querySelector('#game') && !document.querySelector('#game').hidden")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
