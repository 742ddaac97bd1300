"""A run's folder: whose it is."""

from pathlib import Path

import pytest
from games import recipe

from agentrl.config import Config
from agentrl.configfile import load_config
from agentrl.errors import UserError
from agentrl.run_folder import claim, open_folder


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return recipe(tmp_path)


def test_a_new_folder_is_claimed_and_opened(tmp_path: Path, config: Config) -> None:
    folder = tmp_path / "deep" / "run"
    for resume in (False, True):
        assert claim(folder, config, resume) == []
    assert not folder.parent.exists()
    open_folder(folder, config)
    assert load_config(folder / "config.yaml") == config
    assert claim(folder, config, resume=False) == []  # nothing was done in it yet


def test_metrics_or_checkpoints_are_a_run(tmp_path: Path, config: Config) -> None:
    by_metrics, by_checkpoints = tmp_path / "metrics", tmp_path / "checkpoints"
    by_metrics.mkdir()
    (by_metrics / "metrics.jsonl").touch()
    for step in (3, 10):
        (by_checkpoints / "checkpoints" / f"step-{step}").mkdir(parents=True)
    for folder in (by_metrics, by_checkpoints):
        with pytest.raises(UserError, match="holds a run already: add --resume, give another --name, or remove"):
            claim(folder, config, resume=False)
    assert claim(by_metrics, config, resume=True) == []
    assert [path.name for path in claim(by_checkpoints, config, resume=True)] == ["step-3", "step-10"]


def test_only_the_same_run_goes_on(tmp_path: Path, config: Config) -> None:
    open_folder(tmp_path, config)
    assert claim(tmp_path, config.model_copy(update={"max_error_rate": 0.5}), resume=True) == []
    with pytest.raises(UserError, match=r"seed = 1: the run in .* was begun with 0"):
        claim(tmp_path, config.model_copy(update={"seed": 1}), resume=True)


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path, config: Config) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"output_dir = .*: cannot be written: ") as caught:
        open_folder(tmp_path / "file" / "run", config)
    assert "\n" not in str(caught.value)
