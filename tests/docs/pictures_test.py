"""The script that makes the pictures: the recorded terminal, and what is too large for the repository."""

import io

import pytest
from PIL import Image
from rich.console import Console
from rich.live import Live
from rich.text import Text

from scripts import pictures


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
