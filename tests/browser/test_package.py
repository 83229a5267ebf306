"""The page is in the wheel, and its source is readable."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from tools.screenshots import shrink

ROOT = Path(__file__).parents[2]
WEB = ROOT / "doxa" / "server" / "web"
LONGEST_LINE = 120


def test_the_wheel_contains_every_file_of_the_page(tmp_path):
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, ROOT]
    subprocess.run(command, check=True)
    with zipfile.ZipFile(next(tmp_path.glob("doxa-*.whl"))) as wheel:
        names = set(wheel.namelist())
    files = [path.relative_to(ROOT).as_posix() for path in WEB.rglob("*") if path.is_file()]
    assert len(files) > 20
    assert not set(files) - names


def test_pictures_keep_rare_colors(tmp_path):
    """Two similar colors of a small button among many shades of gray."""
    picture = Image.linear_gradient("L").resize((600, 400)).convert("RGB")
    colors = {(10, 10): (165, 50, 31), (40, 10): (176, 58, 58), (70, 10): (248, 226, 220)}
    for corner, color in colors.items():
        picture.paste(color, (*corner, corner[0] + 8, corner[1] + 8))
    picture.save(tmp_path / "picture.png")
    shrink(tmp_path / "picture.png")
    with Image.open(tmp_path / "picture.png") as small:
        drawn = small.convert("RGB")
    for (x, y), color in colors.items():
        assert max(abs(a - b) for a, b in zip(drawn.getpixel((x + 4, y + 4)), color, strict=True)) <= 4


@pytest.mark.parametrize("path", sorted(WEB.rglob("*.js")), ids=lambda path: path.name)
def test_lines_of_scripts_are_short(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        assert len(line) <= LONGEST_LINE, f"{path.name}:{number} has {len(line)} characters"
