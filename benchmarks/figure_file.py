"""Whether the file of `--figure` can be written, asked before hours are spent on what it shows."""

import argparse
from pathlib import Path

from matplotlib.backend_bases import FigureCanvasBase

from agentrl.errors import UserError


def require_drawable(path: Path) -> None:
    """Raise UserError unless the figure can be written; its folder is made."""
    known = sorted(FigureCanvasBase.get_supported_filetypes())
    if path.suffix[1:].lower() not in known:
        raise UserError(f"--figure {path}: the ending names the format, one of {', '.join(known)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("a").close()
    except OSError as error:
        raise UserError(f"--figure {path}: cannot be written: {error.strerror}") from error


def checked(parser: argparse.ArgumentParser, figure: Path | None) -> None:
    """End the program with a line and exit status 2 if there is a figure to be drawn that cannot be."""
    try:
        if figure:
            require_drawable(figure)
    except UserError as error:
        parser.exit(2, f"{error}\n")
