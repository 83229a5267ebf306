"""Chromium for the tests of the page: where it is, and how to get it. Run as a module to install it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

COMMANDS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HOW = "install it with `apt-get install chromium`, or set CHROMIUM to the path of a Chromium or Chrome"


def path() -> str | None:
    """The program to start: what CHROMIUM names, or the first one that is installed."""
    named = os.environ.get("CHROMIUM")
    return named or next(filter(None, map(shutil.which, COMMANDS)), None)


def main() -> int:
    """Install Chromium where it is missing and this may be done; otherwise say how."""
    if path() is None and os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (["apt-get", "-qq", "update"], ["apt-get", "-qq", "install", "-y", "chromium"]):
            subprocess.run(command, env=quiet, stdout=subprocess.DEVNULL, check=False)
    if path() is None:
        print(f"the tests of the page need Chromium: {HOW}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
