"""The policy of the best held-out evaluation, kept apart from the newest ones: runs/NAME/best.

It is chosen on the held-out episodes that it is reported on, so its figures there flatter it: score it on others
(`agentrl eval runs/NAME/best --episodes ...`, `agentrl bench`) before you compare.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentrl.assembly import Parts
from agentrl.policy import save_policy


def best_evaluation(evaluations: Mapping[str, Mapping[str, Any]], task: str) -> str | None:
    """The best of a run's evaluations of its updates, "update-N" and "after": by success, without one by return.

    Of equal ones the later is the best: it has seen more.
    """
    ours = [name for name in evaluations if name.startswith("update-") or name == "after"]

    def figure(name: str) -> float:
        row = evaluations[name][task]
        return float(row["return"] if row["success"] is None else row["success"])

    return max(reversed(ours), key=figure, default=None)


def save_best(run_dir: Path, parts: Parts, name: str, figures: Mapping[str, Any]) -> None:
    """Write runs/NAME/best anew, a Hugging Face folder with the evaluation that chose it in evaluation.json."""
    temporary, final, old = (run_dir / folder for folder in (".writing-best", "best", ".removing-best"))
    for left_by_a_kill in (temporary, old):
        shutil.rmtree(left_by_a_kill, ignore_errors=True)
    temporary.mkdir(parents=True)
    save_policy(parts.model, parts.tokenizer, temporary)
    (temporary / "evaluation.json").write_text(json.dumps({"evaluation": name, **figures}, indent=1) + "\n")
    if final.exists():
        final.rename(old)
    temporary.rename(final)
    shutil.rmtree(old, ignore_errors=True)
