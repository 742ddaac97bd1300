"""What a model learns from so many imitated episodes: held-out success and valid replies, as a table and a curve.

    python benchmarks/imitation_curve.py experiments/babyai_smollm2_135m.yaml --episodes 0 4 16 60 --kept curve/ \
        --figure docs/smollm2.svg

Each point is one training from the recipe's model, scored on the recipe's held-out episodes. What is finished is kept
in `--kept` (a JSON file a point) and not done again. Unknown options are overrides of the recipe.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from figure_file import checked
from matplotlib.figure import Figure

from agentrl import load_config
from agentrl.results import write_json
from agentrl.standalone import evaluate_model, imitate_player


def point(recipe: str, overrides: Sequence[str], episodes: int, kept: Path) -> dict[str, Any]:
    """Figures of the model after imitating so many episodes; 0 is the model as it was."""
    file = kept / f"{episodes}.json"
    if file.is_file():
        return json.loads(file.read_text())
    config = load_config(recipe, [*overrides, f"--imitation.episodes={episodes}"])
    if episodes:
        with TemporaryDirectory() as folder:
            found = imitate_player(config, Path(folder) / "model")
    else:
        found = evaluate_model(config, str(config.model.path))
    figures = found[config.game.id] | {
        "imitated": episodes,
        "turns_imitated": found.get("imitation", {}).get("turns", 0),
    }
    figures.pop("lengths", None)
    kept.mkdir(parents=True, exist_ok=True)
    write_json(file, figures)
    return figures


def draw(points: Sequence[dict[str, Any]], title: str, file: Path) -> None:
    picture = Figure(figsize=(6, 3.4), layout="constrained")
    axes = picture.subplots()
    places = [max(0.5, row["imitated"]) for row in points]
    means = [row["success"] for row in points]
    below = [max(0.0, row["success"] - row["success_ci95"][0]) for row in points]
    above = [max(0.0, row["success_ci95"][1] - row["success"]) for row in points]
    axes.errorbar(places, means, yerr=[below, above], fmt="o-", capsize=3, label="success, 95 % interval")
    axes.plot(
        places, [1 - row["invalid_fraction"] for row in points], "s--", color="C2", label="replies with an action"
    )
    axes.set_xscale("log")
    axes.set_xticks(places, [str(row["imitated"]) for row in points])
    axes.minorticks_off()
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("imitated episodes")
    axes.set_title(title, fontsize="medium")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", loc="lower right")
    picture.savefig(file)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--episodes", type=int, nargs="+", default=[0, 4, 16, 60], metavar="N")
    parser.add_argument("--kept", type=Path, default=Path("imitation_curve"), metavar="DIR")
    parser.add_argument("--figure", type=Path, metavar="FILE")
    options, overrides = parser.parse_known_args(arguments)
    checked(parser, options.figure)
    points = []
    for episodes in sorted(options.episodes):
        row = point(options.recipe, overrides, episodes, options.kept)
        points.append(row)
        low, high = row["success_ci95"]
        print(
            f"| {episodes} ({row['turns_imitated']:.0f} turns) | {row['episodes']} | {row['success']:.3f} "
            f"[{low:.3f}, {high:.3f}] | {1 - row['invalid_fraction']:.1%} | {row['length']:.1f} |",
            flush=True,
        )
    if options.figure:
        draw(points, load_config(options.recipe, overrides).name, options.figure)
    print(json.dumps({"recipe": options.recipe, "points": points}))


if __name__ == "__main__":
    main()
