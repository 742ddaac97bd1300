"""The command `agentrl view`: a page to look at runs and benchmarks with.

As in `agentrl.cli`, what is heavy is imported inside the command.
"""

from pathlib import Path
from typing import Annotated

import typer

from agentrl.arguments import examples
from agentrl.errors import UserError

commands = typer.Typer()


@commands.command(
    epilog=examples(
        "agentrl view runs/quickstart",
        "agentrl view runs/slow runs/fast --out both",
        "agentrl view runs/quickstart --serve",
        "agentrl view runs/quickstart --episode evaluation-after/0 --gif episode.gif",
    )
)
def view(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="RUN_OR_RESULT", help="Runs, benchmarks' results, eval --out files."),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="The page's folder; without it view/ in the first one.")
    ] = None,
    frames: Annotated[
        int, typer.Option(min=0, metavar="N", help="Draw the game in the first N episodes of each; 0: replay none.")
    ] = 12,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve it on this machine, follow a training, draw what is opened.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="With --serve; 0 takes a free one.")] = 8008,
    episode: Annotated[
        str | None, typer.Option(metavar="[FILE/]K", help="With --gif: which episode, such as evaluation-after/0.")
    ] = None,
    gif: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Instead, write one episode's pictures to a .gif or .mp4.")
    ] = None,
    fps: Annotated[float, typer.Option(min=0.1, max=50, help="With --gif: turns a second.")] = 4.0,
) -> None:
    """Look at what agents did: curves, tasks, and episodes turn by turn, on one page that needs no network.

    The page is a folder: open its index.html. With --serve it draws whatever episode is opened.
    """
    if (gif is None) != (episode is None):
        raise UserError("--gif and --episode go together: `--episode evaluation-after/0 --gif episode.gif`")
    if gif is not None and episode is not None:
        from agentrl.view_export import export

        export(folders[0], episode, gif, fps)
        print(f"Written to {gif}")
        return
    from agentrl.view import View

    place = folders[0] if folders[0].is_dir() else folders[0].parent
    page = View(folders, out or place / "view", 0 if serve else frames, outcomes=frames > 0)
    if not serve:
        page.refresh(tell=print)
        print(f"Open {page.out / 'index.html'}")
        return
    from agentrl.view_server import make_server

    with make_server(page, port) as server:
        page.refresh(live=True, tell=print)
        print(f"Serving http://127.0.0.1:{server.server_port}/ (Ctrl-C ends it)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("Ended.")
