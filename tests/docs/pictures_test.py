"""The script that makes the pictures: the recorded terminal, and the pictures in the repository."""

import io
import pathlib

import pytest
from PIL import Image
from rich.console import Console
from rich.live import Live
from rich.text import Text

from scripts import pictures

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_a_display_that_is_drawn_again_in_place_is_shown_once():
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=20)
    with Live(Text("one\ntwo"), console=console, auto_refresh=False) as live:
        console.print("a [red]line[/red] of the log")
        live.update(Text("three\nfour"), refresh=True)
    written = output.getvalue().replace("\n", "\r\n")  # as a terminal receives it
    shown = Text.from_ansi(pictures.screen(written))
    assert shown.plain == "a line of the log\nthree\nfour"
    assert [shown.plain[span.start : span.end] for span in shown.spans] == ["line"]


def test_a_picture_that_is_too_large_is_refused(tmp_path):
    Image.effect_noise((800, 800), 50).convert("RGB").save(tmp_path / "noise.png")
    with pytest.raises(pictures.PictureError, match="more than 200,000"):
        pictures.compress(tmp_path / "noise.png")


@pytest.mark.parametrize("name", ["terminal", "tensorboard", "frame"])
def test_each_picture_is_there_and_of_a_sensible_size(name):
    path = ROOT / "docs" / "pictures" / f"{name}.png"
    assert path.stat().st_size <= pictures.LARGEST
    with Image.open(path) as image:
        assert image.width >= 160
        assert image.height >= 160
