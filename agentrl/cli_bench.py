"""`agentrl bench`: the number that the field reports, with the evidence."""

import sys
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from agentrl.arguments import examples
from agentrl.errors import UserError, did_you_mean

commands = typer.Typer()


@commands.command(
    epilog=examples(
        "agentrl bench --model Qwen/Qwen2.5-3B-Instruct",
        "agentrl bench --model runs/quickstart --suite quick --constrain",
        "agentrl bench --model my-model --engine openai --base-url http://127.0.0.1:8000/v1 --agent robust_cot",
        "agentrl bench --player random --tasks 'babyai/*' --episodes 100",
        "agentrl bench --resume results/2026-01-31_12-00-00_naive_my-model",
    )
)
def bench(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Run, checkpoint, Hugging Face name or folder; or the endpoint's."),
    ] = None,
    player: Annotated[str, typer.Option(help="model, or in its place random or scripted.")] = "model",
    suite: Annotated[str, typer.Option(metavar="NAME|FILE", help="balrog, quick, or a YAML file.")] = "balrog",
    tasks: Annotated[
        list[str] | None,
        typer.Option("--tasks", metavar="ID", help="Only these of the suite; * for any text; repeatable."),
    ] = None,
    episodes: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Of each task, in place of the suite's number.")
    ] = None,
    engine: Annotated[
        str, typer.Option(help="transformers (in this process) or openai (any such endpoint).")
    ] = "transformers",
    base_url: Annotated[str | None, typer.Option(metavar="URL", help="The endpoint, up to and with /v1.")] = None,
    agent: Annotated[
        str,
        typer.Option(metavar="STYLE", help="naive, cot, robust_naive, robust_cot, plan, few_shot, or a dotted path."),
    ] = "naive",
    history: Annotated[
        int, typer.Option(min=0, metavar="N", help="Observations in a prompt, the current one among them.")
    ] = 16,
    parsing: Annotated[str, typer.Option(help="strict: an action's exact name, as BALROG; tolerant: ours.")] = "strict",
    feedback: Annotated[
        bool, typer.Option("--feedback/--no-feedback", help="Tell of replies without an action.")
    ] = True,
    prompts: Annotated[
        str | None, typer.Option(metavar="DIR|balrog", help="Words of your own, or of the installed BALROG package.")
    ] = None,
    demonstrations: Annotated[int, typer.Option(min=1, metavar="N", help="Episodes that few_shot shows.")] = 1,
    temperature: Annotated[float, typer.Option(min=0.0, help="0: greedy.")] = 0.0,
    max_tokens: Annotated[int, typer.Option(min=1, metavar="N", help="Most tokens of a reply.")] = 1024,
    max_prompt_tokens: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Oldest events are dropped beyond; without it the model's context."),
    ] = None,
    constrain: Annotated[bool, typer.Option("--constrain", help="Only legal actions can be sampled.")] = False,
    seed: Annotated[int, typer.Option(min=0, max=9999, help="Another one plays other levels.")] = 0,
    balrog_seeding: Annotated[
        bool, typer.Option("--balrog-seeding", help="One level for all episodes of a task, that of --seed.")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, metavar="N", help="Episodes played at a time.")] = 16,
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds without a byte from the endpoint.")] = 120.0,
    max_retries: Annotated[int, typer.Option(min=0, metavar="N", help="Further attempts at a request.")] = 6,
    batch_size: Annotated[int, typer.Option(min=1, metavar="N", help="Most prompts in a forward pass.")] = 64,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Without it results/TIME_AGENT_MODEL.")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option("--resume", metavar="DIR", help="Go on with the benchmark there, failed episodes anew."),
    ] = None,
) -> None:
    """Score a player on a suite of tasks; write BALROG's result files and ours, print the scores."""
    asked = {name: value for name, value in context.params.items() if name not in ("out", "resume")}
    asked["tasks"] = tasks or []
    for name, known in (("player", ("model", "random", "scripted")), ("engine", ("transformers", "openai", "vllm")),
                        ("parsing", ("strict", "tolerant"))):  # fmt: skip
        if asked[name] not in known:
            raise UserError(f"--{name} {asked[name]}: one of {', '.join(known)}{did_you_mean(str(asked[name]), known)}")
    given = {
        name: asked[name] for name in asked if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    }
    failed = _play(asked, given, out, resume)
    if failed:
        raise typer.Exit(1)


def _play(asked: dict[str, Any], given: dict[str, Any], out: Path | None, resume: Path | None) -> int:
    """Number of episodes that failed."""
    from agentrl import bench_config
    from agentrl.bench_agents import agent_style
    from agentrl.bench_config import BenchConfig, commit
    from agentrl.bench_suite import load_suite

    if resume is not None:
        if out is not None:
            raise UserError("--out and --resume exclude each other: a resumed benchmark stays in its folder")
        config, folder = bench_config.read(resume, given), resume
    else:
        try:
            config = BenchConfig.model_validate(asked)
        except ValidationError as error:
            mistake = error.errors()[0]
            raise UserError(f"--{mistake['loc'][0]} {mistake['input']}: {mistake['msg']}") from None
        folder = out or config.folder()
    config.check()
    agent_style(config.agent)
    suite = load_suite(config.suite, config.tasks, config.episodes)
    started = time.monotonic()
    with redirect_stdout(sys.stderr):
        from agentrl.bench import Bench
        from agentrl.bench_results import Folder
        from agentrl.results import machine, versions

        for game_id, missing in suite.skipped.items():
            print(f"skipped: {game_id} ({missing})")
        kept = Folder(folder, *config.original())
        bench = Bench(
            suite, config.make_player(), config.spec, kept, config.seed, config.workers, config.balrog_seeding
        )
        if resume is None:
            bench_config.write(folder, config)
        try:
            played = bench.run()
        except KeyboardInterrupt:
            raise UserError(
                f"interrupted; what was finished is kept. To go on: agentrl bench --resume {folder}"
            ) from None
        results = bench.results(played) | {
            "settings": config.model_dump(mode="json", exclude=set(bench_config.MAY_CHANGE)),
            "commit": commit(),
            "machine": machine(),
            "versions": versions(),
            "seconds": time.monotonic() - started,
        }
        kept.write_summaries(suite.tasks, played, results)
    from agentrl.bench_table import print_results

    print_results(results)
    failed = sum(one.error is not None for one in played)
    print(f"Results: {folder}")
    if failed:
        print(f"{failed} of {len(played)} episodes failed and are in no score.")
        print(f"To try them again: agentrl bench --resume {folder}")
    return failed
