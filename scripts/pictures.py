#!/usr/bin/env python3
"""Creates the pictures in the documentation: scripts/pictures.py [--output=docs/pictures]

    terminal.png      a terminal during a training run on Catch
    curve.png         the returns of that run
    pong.gif, ...     a few seconds of pretrained policies

The pictures show a real training run and films. This takes about two minutes and needs chromium
(scripts/install_chromium.sh).
"""

import argparse
import html
import io
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import imageio_ffmpeg
import matplotlib
from PIL import Image
from playwright.sync_api import Browser, sync_playwright
from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

ROOT = pathlib.Path(__file__).resolve().parents[1]
COLUMNS, LINES = 88, 40
TRAINING = ("train", "--gin_file=catch/vtrace")
RUN = "runs/catch_vtrace"
BROWSER = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
LARGEST = 200_000  # maximum size of a picture, bytes
FILMS = {"pong": (20, 8, 424), "breakout": (50, 8, 424), "halfcheetah": (2, 4, 480)}
"""Beginning and length of each policy's film, seconds, and the height of its picture above the caption."""
FILM_HEIGHT = 240  # pixels
FRAMES_PER_SECOND = 15  # of `seed_rl play`
SHARE = 75  # percentage of the run shown as done


class PictureError(Exception):
    """A picture can't be created; the message is one line."""


def recording(command: list[str], cwd: pathlib.Path, seconds: float) -> str:
    """Run a command on a terminal and return its output with control sequences.

    Raises:
      PictureError: the command fails or takes longer than `seconds`.
    """
    size = {"COLUMNS": str(COLUMNS), "LINES": str(LINES), "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    done = subprocess.run(
        ["timeout", str(seconds), "script", "--quiet", "--return", "--command", shlex.join(command), "/dev/null"],
        cwd=cwd,
        env={**os.environ, **size, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    written = done.stdout.decode("utf-8", "replace")  # not as text, which would lose the carriage returns
    if done.returncode:
        raise PictureError(f"{' '.join(command)} ended with {done.returncode}: {written[-500:]}")
    return written


def screen(written: str) -> str:
    """Return the lines of a terminal after output of rich, with their styles as escape sequences.

    The only cursor movements handled are those of rich's live displays: up, and erase a line.
    """
    lines = [""]
    for part in re.split(r"(\n|\x1b\[1A|\x1b\[2K|\x1b\[\?25[hl])", written.replace("\r", "")):
        if part == "\n":
            lines.append("")
        elif part == "\x1b[1A":
            lines.pop()
        elif part == "\x1b[2K":
            lines[-1] = ""
        elif not part.startswith("\x1b[?"):  # shows or hides the cursor
            lines[-1] += part
    return "\n".join(lines[-LINES:]).rstrip()


def during(written: str) -> str:
    """Cut a recorded run after the last panel that shows at most `SHARE` percent as done.

    Raises:
      PictureError: there is no such panel.
    """
    redrawings = [written[: found.start()] for found in re.finditer(r"\r\x1b\[2K", written)]
    shares = [(re.findall(r"(\d+)%", text), text) for text in redrawings]
    before = [text for found, text in shares if found and int(found[-1]) <= SHARE]
    if not before:
        raise PictureError("the run showed no share of its frames in percent")
    return before[-1]


def terminal_page(shown: str, command: str) -> str:
    """Build a page that looks like a terminal with a typed command, followed by the `shown` lines."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi(shown, no_wrap=True))
    text = console.export_html(theme=SVG_EXPORT_THEME, inline_styles=True, code_format="{code}")
    font = pathlib.Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSansMono.ttf").as_uri()
    return f"""<!doctype html><meta charset="utf-8"><style>
        @font-face {{ font-family: mono; src: url({font}); }}
        body {{ margin: 0; background: #fff; }}
        #terminal {{ display: inline-block; padding: 14px 18px; border-radius: 8px; }}
        #terminal {{ background: #16191d; color: #d7dae0; }}
        pre {{ margin: 0; font: 14px/16px mono; }} /* without gaps in the lines that frame the panel */
        </style><div id="terminal"><pre><span style="color:#7bc275">$</span> {html.escape(command)}
{text.rstrip()}</pre></div>"""


def photograph_terminal(browser: Browser, page_html: str, path: pathlib.Path) -> None:
    """Write a picture of a page built by `terminal_page`."""
    page = browser.new_page(device_scale_factor=1.5, viewport={"width": 1200, "height": 1000})
    with tempfile.NamedTemporaryFile("w", suffix=".html", encoding="utf-8") as file:  # fonts are loaded from files only
        file.write(page_html)
        file.flush()
        page.goto(pathlib.Path(file.name).as_uri())
        page.evaluate("document.fonts.ready")
        page.locator("#terminal").screenshot(path=path)
    page.close()
    compress(path)


def film(name: str, path: pathlib.Path) -> None:
    """Write a part of an episode of a pretrained policy as a GIF, without the caption."""
    start, seconds, height = FILMS[name]
    with tempfile.TemporaryDirectory() as scratch:
        movie = os.path.join(scratch, "play.mp4")
        steps = FRAMES_PER_SECOND * (start + seconds)
        seed_rl("play", f"--logdir={name}", f"--max_steps={steps}", f"--output={movie}")
        shown = f"crop=in_w:{height}:0:0,scale=-2:{FILM_HEIGHT}:flags=area,split[a][b]"
        colors = "[a]palettegen=max_colors=48:stats_mode=diff[p];[b][p]paletteuse=dither=none"
        cut = ["-ss", str(start), "-t", str(seconds), "-i", movie, "-vf", f"{shown};{colors}"]
        subprocess.run([imageio_ffmpeg.get_ffmpeg_exe(), "-loglevel", "error", "-y", *cut, str(path)], check=True)


def seed_rl(*arguments: str) -> None:
    """Run a seed_rl command to its end.

    Raises:
      PictureError: the command fails.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "seed_rl", *arguments], capture_output=True, text=True, env=environment
    )
    if done.returncode:
        raise PictureError(f"seed_rl {' '.join(arguments)} failed: {done.stderr[-500:]}")


def compress(path: pathlib.Path) -> None:
    """Reduce a picture to 256 colors, enough for text and curves.

    Raises:
      PictureError: the picture is still too large for a repository.
    """
    with Image.open(path) as image:
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    if path.stat().st_size > LARGEST:
        raise PictureError(f"{path} has {path.stat().st_size:,} bytes, more than {LARGEST:,}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "docs" / "pictures")
    arguments = parser.parse_args()
    chromium = shutil.which("chromium")
    if chromium is None:
        print("there is no chromium: scripts/install_chromium.sh installs it", file=sys.stderr)
        return 1
    arguments.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(BROWSER))
        try:
            place = pathlib.Path(scratch)
            written = recording([sys.executable, "-m", "seed_rl", *TRAINING], place, seconds=600)
            page = terminal_page(screen(during(written)), f"seed_rl {' '.join(TRAINING)}")
            photograph_terminal(browser, page, arguments.output / "terminal.png")
            seed_rl("plot", str(place / RUN), f"--output={arguments.output / 'curve.png'}", "--overwrite")
            compress(arguments.output / "curve.png")
            for name in FILMS:
                film(name, arguments.output / f"{name}.gif")
        except PictureError as error:
            print(error, file=sys.stderr)
            return 1
        finally:
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
