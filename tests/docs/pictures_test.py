"""The script that makes the pictures: what its terminal shows, and the pictures that are there."""

import importlib.util
import io
import pathlib
import sys

import pytest
from PIL import Image
from rich.console import Console
from rich.live import Live
from rich.text import Text

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def pictures():
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "scripts" / "pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def shown(pictures):
    """What a terminal of 20 columns and 5 lines shows of an output."""

    def show(output: str) -> str:
        terminal = pictures.Terminal(20, 5)
        terminal.feed(output)
        return terminal.text()

    return show


def test_a_display_that_is_drawn_again_in_place_is_shown_once(shown):
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=20)
    with Live(Text("one\ntwo"), console=console, auto_refresh=False) as live:
        console.print("a line of the log")
        live.update(Text("three\nfour"), refresh=True)
    arrived = output.getvalue().replace("\n", "\r\n")  # as the terminal's line discipline has it
    assert Text.from_ansi(shown(arrived)).plain == "a line of the log\nthree\nfour"


def test_a_line_that_is_too_long_goes_on_in_the_next(shown):
    assert shown("a" * 20 + "bc\r\nd") == "a" * 20 + "\nbc\nd"


def test_characters_are_overwritten_after_a_return(shown):
    assert shown("12345\rab") == "ab345"


def test_erasing_to_the_end_of_a_line_leaves_what_is_before(shown):
    assert shown("12345\x1b[2D\x1b[K") == "123"


def test_styles_belong_to_the_characters_they_were_written_with(shown):
    assert Text.from_ansi(shown("\x1b[31mred\x1b[0m plain")) == Text.from_ansi("\x1b[31mred\x1b[0m plain")
    assert "\x1b[31mred" in shown("\x1b[31mred\x1b[0m plain")


def test_clearing_the_screen_leaves_what_is_written_afterwards(shown):
    assert shown("before\r\n\x1b[2J\x1b[Hafter") == "after"


def test_of_a_run_the_last_screen_before_three_quarters_is_taken(pictures):
    assert pictures.well_on(["starting", " 10% x", "10% x 74% y", "10% x 74% y 80% z"]) == "10% x 74% y"


def test_a_run_without_a_share_of_its_frames_is_told(pictures):
    with pytest.raises(pictures.PictureError, match="no share of its frames in percent"):
        pictures.well_on(["starting"])


def test_what_a_command_writes_onto_its_terminal_is_read_to_the_end(pictures, tmp_path):
    code = "import sys, time; print(sys.stdout.isatty(), flush=True); time.sleep(1); print('end')"
    screens = pictures.screens([sys.executable, "-c", code], tmp_path, seconds=60)
    assert screens[0] == "True\r\n"


def test_a_command_that_fails_is_told_with_its_words(pictures, tmp_path):
    with pytest.raises(pictures.PictureError, match="(?s)ended with 3.*words"):
        pictures.screens([sys.executable, "-c", "print('words'); exit(3)"], tmp_path, seconds=60)


def test_a_picture_that_is_too_large_is_told(pictures, tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "LARGEST", 100)
    Image.effect_noise((64, 64), 50).convert("RGB").save(tmp_path / "noise.png")
    with pytest.raises(pictures.PictureError, match="more than 100"):
        pictures.compress(tmp_path / "noise.png")


@pytest.mark.parametrize("name", ["terminal", "tensorboard", "frame"])
def test_each_picture_is_there_and_of_a_sensible_size(pictures, name):
    path = ROOT / "docs" / "pictures" / f"{name}.png"
    assert path.stat().st_size <= pictures.LARGEST
    with Image.open(path) as image:
        assert image.width >= 160
        assert image.height >= 160
