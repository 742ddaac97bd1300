"""What is installed is what is in the checkout: wheel (by way of the sdist) and editable, away from the sources."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import agentrl

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]
FOLDERS = {"agentrl": "agentrl", "agentrl/envs": "envs", "agentrl/prompts": "prompts"}

PROGRAM = """
import importlib, pkgutil, sys
from pathlib import Path
import agentrl, agentrl.envs, agentrl.prompts
home = Path(sys.argv[1]).resolve()
for package in (agentrl, agentrl.envs, agentrl.prompts):
    assert Path(package.__file__).resolve().is_relative_to(home), package.__file__
for path, prefix in ((agentrl.__path__, "agentrl."), (agentrl.envs.__path__, "agentrl.envs.")):
    for module in pkgutil.walk_packages(path, prefix):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
from agentrl.config import PromptConfig
from agentrl.memory import make_memory
from agentrl.prompting import Prompter
game = agentrl.envs.make("babyai/goto")
observation, info = game.reset(seed=0)
for style in ("action", "cot"):
    config = PromptConfig(style=style)
    messages = Prompter(config, "babyai/goto", None).messages(game, observation, make_memory(config))
    assert observation.scene in messages[-1]["content"]
print("works")
"""


def test_every_package_folder_is_listed():
    found = set()
    for name, folder in FOLDERS.items():
        for init in (ROOT / folder).rglob("__init__.py"):
            found.add(Path(name, init.parent.relative_to(ROOT / folder)).as_posix().replace("/", "."))
    assert found == set(SETUPTOOLS["packages"])
    assert SETUPTOOLS["package-dir"] == {name.replace("/", "."): folder for name, folder in FOLDERS.items()}


def test_one_version():
    assert PYPROJECT["project"]["version"] == agentrl.__version__
    assert f"version: {agentrl.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_pinned_torch_is_one_that_the_package_takes():
    from packaging.requirements import Requirement

    (pin,) = (Requirement(line) for line in (ROOT / "constraints.txt").read_text().splitlines() if line[:1].isalpha())
    required = {Requirement(text).name: Requirement(text) for text in PYPROJECT["project"]["dependencies"]}
    (version,) = (specifier.version for specifier in pin.specifier)
    assert version in required[pin.name].specifier


def test_the_impostor_is_no_dependency():
    """PyPI's `balrog` is an access-control library, and a top-level `envs` is somebody else's."""
    project = PYPROJECT["project"]
    everything = project["dependencies"] + [d for extra in project["optional-dependencies"].values() for d in extra]
    names = {re.match(r"[A-Za-z0-9._-]+", requirement)[0].lower() for requirement in everything}
    assert not names & {"balrog", "envs", "prompts"}


def test_ci_runs():
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    subprocess.run(["bash", "-n", str(ROOT / ".ci" / "run")], check=True)
    plan = subprocess.run(
        ["make", "-n", "test", "quickstart"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for command in (
        "ruff check",
        "ruff format --check",
        "mypy",
        "pytest -q ",
        '-m "not slow"',
        "agentrl train experiments/",
    ):
        assert command in plan


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A copy of the checkout: building writes beside the sources."""
    copy = tmp_path_factory.mktemp("sources") / "agentrl"
    unwanted = (".venv", ".git", "build", "dist", "runs", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis")
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*unwanted))
    return copy


@pytest.fixture(scope="module")
def wheel(sources):
    """Built from the sdist, so that a file the sdist lacks is missed."""
    build = "import setuptools.build_meta as b; print(b.build_sdist('dist'))"
    subprocess.run([sys.executable, "-c", build], cwd=sources, check=True, capture_output=True)
    (sdist,) = (sources / "dist").glob("*.tar.gz")
    pip(sys.executable, "wheel", "--no-deps", "--no-build-isolation", "-w", sources / "dist", sdist)
    (built,) = (sources / "dist").glob("*.whl")
    return built


def pip(python, *arguments) -> None:
    command = [sys.executable, "-m", "pip", "--python", python, *arguments, "-q", "--disable-pip-version-check"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def fresh_venv(folder: Path) -> Path:
    """A venv that sees this one's dependencies, but through a plain path: not its editable install of agentrl."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site_packages,) = folder.glob("lib/python*/site-packages")
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def run_away_from_the_checkout(binaries: Path, folder: Path, home: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    environment |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    for command in (
        [binaries / "agentrl", "--help"],
        [binaries / "python", "-m", "agentrl", "games"],
        [binaries / "python", "-c", PROGRAM, home],
    ):
        done = subprocess.run(
            [str(part) for part in command], cwd=folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip()


@pytest.mark.slow
def test_the_wheel_holds_every_file(wheel):
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    expected = {
        Path(name, path.relative_to(ROOT / folder)).as_posix()
        for name, folder in FOLDERS.items()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix in {".py", ".yaml", ".j2", ".json", ".typed", ".html", ".js", ".css"}
    }
    assert packed == expected


@pytest.mark.slow
def test_the_sdist_is_complete(sources, wheel):
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    (sdist,) = (sources / "dist").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert set(tracked) <= packed


@pytest.mark.slow
def test_wheel_in_a_fresh_venv(wheel, tmp_path):
    binaries = fresh_venv(tmp_path / "venv")
    pip(binaries / "python", "install", "--no-deps", "--no-index", wheel)
    run_away_from_the_checkout(binaries, tmp_path, home=tmp_path / "venv")


@pytest.mark.slow
def test_editable_in_a_fresh_venv(sources, tmp_path):
    binaries = fresh_venv(tmp_path / "venv")
    pip(binaries / "python", "install", "--no-deps", "--no-build-isolation", "--no-index", "-e", sources)
    run_away_from_the_checkout(binaries, tmp_path, home=sources)
