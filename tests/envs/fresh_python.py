"""What a script prints in a Python process of its own."""

import os
import subprocess
import sys


def told(script: str, *arguments: str, **environment: str) -> str:
    finished = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    return finished.stdout
