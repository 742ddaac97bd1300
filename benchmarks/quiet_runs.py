"""Training runs inside of a benchmark: nothing is printed, nothing stays, several at a time."""

import contextlib
import io
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from seeds import pooled

Row = TypeVar("Row", bound=tuple[Any, ...])

SETTINGS = (
    "--checkpoint.every=0",
    "--tracking.backends=[]",
    "--tracking.turns_every=0",
    "--evaluation.greedy=false",
    "--evaluation.random=false",
)


@contextlib.contextmanager
def quiet_run() -> Iterator[tuple[Path, list[str]]]:
    """A folder that is gone afterwards, and the overrides of a run that leaves its files there."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        yield Path(folder), [f"--output_dir={folder}", *SETTINGS]


def runs_by_row(
    run: Callable[..., dict[str, Any]], rows: Sequence[Row], seeds: Sequence[int], extra: Sequence[str], jobs: int
) -> Iterator[tuple[Row, list[dict[str, Any]]]]:
    """`run(*row, seed, extra)` for every row and seed, `jobs` at a time in processes of their own; row by row."""
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting = {row: [pool.submit(run, *row, seed, extra) for seed in seeds] for row in rows}
        for row, futures in waiting.items():
            yield row, [future.result() for future in futures]


def pooled_figures(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of a row's runs, each with its "total_cpu_seconds": held-out figures before and after, turns, CPU seconds."""
    return {
        "before": pooled(runs, "before"),
        "after": pooled(runs, "after"),
        "turns": [run["turns"] for run in runs],
        "cpu_seconds": [round(run["total_cpu_seconds"], 1) for run in runs],
    }
