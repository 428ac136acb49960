#!/usr/bin/env python3
"""Makes the pictures of the documentation: scripts/pictures.py [--pong_logdir=runs/pong] [--output=docs/pictures]

    terminal.png      what a terminal shows while Catch is trained
    tensorboard.png   TensorBoard in a browser, on that run or on the one that is given
    frame.png         the middle of an episode that the same run's policy plays

Everything is real: a training run on a terminal of its own, TensorBoard's server, a film. It takes about two minutes,
and chromium (scripts/install_chromium.sh).
"""

from __future__ import annotations

import argparse
import contextlib
import html
import io
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from fcntl import ioctl

import imageio.v2 as imageio
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
TAGS = "episodes/return|frames_per_second|loss/total|policy/entropy"
LARGEST = 200_000  # bytes of a picture
FRAME_HEIGHT = 480  # pixels, of a frame at the most, where it is enlarged
PAUSE = 0.1  # seconds without output: whatever is drawn has been drawn to its end
SHARE = 75  # percent of the run


class PictureError(Exception):
    """A picture can't be made; the message is one sentence."""


class Terminal:
    """The screen of a terminal, of what programs that draw with rich write: text, styles, movements, erasures."""

    def __init__(self, columns: int, lines: int):
        self._columns, self._lines = columns, lines
        self._style = ""
        self._row = self._column = 0
        self._cells: list[list[tuple[str, str]]] = []

    def feed(self, output: str) -> None:
        """Does what a program has written."""
        for part in re.finditer(
            r"\x1b\[([?\d;]*)([A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.|(.)", output, re.DOTALL
        ):
            if part[2]:
                self._control(part[1], part[2])
            elif part[3]:
                self._character(part[3])

    def text(self) -> str:
        """The lines, with their styles as escape sequences, and without the empty ones at the end."""
        lines = []
        for cells in self._cells[-self._lines :]:
            line, style = "", ""
            for own, character in cells:
                if own != style:
                    line, style = f"{line}\x1b[0m{own}", own
                line += character
            lines.append(f"{line}\x1b[0m" if style else line.rstrip())
        return "\n".join(lines).rstrip()

    def _character(self, character: str) -> None:
        if character == "\n":
            self._row += 1
        elif character == "\r":
            self._column = 0
        elif character == "\b":
            self._column = max(0, self._column - 1)
        elif character >= " ":
            if self._column >= self._columns:
                self._row, self._column = self._row + 1, 0
            line = self._line()
            line += [("", " ")] * (self._column + 1 - len(line))
            line[self._column] = (self._style, character)
            self._column += 1

    def _line(self) -> list[tuple[str, str]]:
        while len(self._cells) <= self._row:
            self._cells.append([])
        return self._cells[self._row]

    def _control(self, arguments: str, command: str) -> None:
        numbers = [int(number or 0) for number in arguments.split(";")] if "?" not in arguments else []
        count = max(1, numbers[0]) if numbers else 1
        if command == "m":
            self._style = "" if numbers == [0] else f"{self._style}\x1b[{arguments}m"
        elif command in "AB":
            self._row = max(0, self._row + (count if command == "B" else -count))
        elif command in "CD":
            self._column = max(0, self._column + (count if command == "C" else -count))
        elif command == "G":
            self._column = count - 1
        elif command in "Hf":
            top = max(0, len(self._cells) - self._lines)
            self._row, self._column = top + count - 1, max(1, numbers[1]) - 1 if len(numbers) > 1 else 0
        elif command == "K":
            line = self._line()
            first, end = {0: (self._column, len(line)), 1: (0, self._column + 1), 2: (0, len(line))}[
                (numbers or [0])[0]
            ]
            line[first:end] = [("", " ")] * (min(end, len(line)) - first)
        elif command == "J" and (numbers or [0])[0] == 2:
            self._cells.clear()
        elif command == "J":
            del self._cells[self._row + 1 :]
            self._line()[self._column :] = []


def screens(command: list[str], cwd: pathlib.Path, seconds: float) -> list[str]:
    """What a command has written onto a terminal of its own, from the start to each pause in its writing.

    Raises:
      PictureError: it fails, or takes too long.
    """
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "PYTHONPATH": str(ROOT)}
        os.execv(command[0], command)
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    output, pauses, deadline = b"", [0], time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], PAUSE)[0]:
            if pauses[-1] != len(output):
                pauses.append(len(output))
            continue
        try:
            output += os.read(terminal, 65536)
        except OSError:  # the other side is closed
            break
    else:
        os.kill(pid, signal.SIGINT)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(terminal)
    if status != 0 or time.monotonic() >= deadline:
        raise PictureError(f"{' '.join(command)} ended with {status}: {output[-500:].decode('utf-8', 'replace')}")
    return [output[:pause].decode("utf-8", "replace") for pause in pauses[1:]]


def well_on(written: list[str]) -> str:
    """Of what a run has written so far, the last that shows less than `SHARE` of its frames behind it."""
    shares = [(re.findall(r"(\d+)%", text), text) for text in written]
    before = [text for found, text in shares if found and int(found[-1]) <= SHARE]
    if not before:
        raise PictureError("the run showed no share of its frames in percent")
    return before[-1]


def terminal_page(screen: str, command: str) -> str:
    """A page that looks like a terminal that shows `screen`, below the command that was typed."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi(screen, no_wrap=True))
    shown = console.export_html(theme=SVG_EXPORT_THEME, inline_styles=True, code_format="{code}")
    font = pathlib.Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSansMono.ttf").as_uri()
    return f"""<!doctype html><meta charset="utf-8"><style>
        @font-face {{ font-family: mono; src: url({font}); }}
        body {{ margin: 0; background: #fff; }}
        #terminal {{ display: inline-block; padding: 14px 18px; border-radius: 8px; }}
        #terminal {{ background: #16191d; color: #d7dae0; }}
        pre {{ margin: 0; font: 14px/16px mono; }} /* without gaps in the lines that frame the panel */
        </style><div id="terminal"><pre><span style="color:#7bc275">$</span> {html.escape(command)}
{shown.rstrip()}</pre></div>"""


def photograph_terminal(browser: Browser, page_html: str, path: pathlib.Path) -> None:
    """Writes a picture of a page of `terminal_page`."""
    page = browser.new_page(device_scale_factor=1.5, viewport={"width": 1200, "height": 1000})
    with tempfile.NamedTemporaryFile(
        "w", suffix=".html", encoding="utf-8"
    ) as file:  # of a file, so that the font loads
        file.write(page_html)
        file.flush()
        page.goto(pathlib.Path(file.name).as_uri())
        page.evaluate("document.fonts.ready")
        page.locator("#terminal").screenshot(path=path)
    page.close()
    compress(path)


@contextlib.contextmanager
def tensorboard(logdir: pathlib.Path) -> Iterator[str]:
    """TensorBoard's address, while it serves a log directory."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    program = pathlib.Path(sys.executable).parent / "tensorboard"
    command = [program, f"--logdir_spec={logdir.name}:{logdir}", f"--port={port}", "--samples_per_plugin=scalars=1000"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            url = f"http://localhost:{port}/"
            for _ in range(120):
                try:
                    tags = urllib.request.urlopen(f"{url}data/plugin/timeseries/tags", timeout=10).read()
                    if b"episodes/return" in tags:
                        break
                except urllib.error.URLError:
                    pass
                time.sleep(0.5)
            else:
                raise PictureError(f"TensorBoard does not show {logdir}")
            yield url
        finally:
            process.terminate()


def photograph_tensorboard(browser: Browser, logdir: pathlib.Path, path: pathlib.Path) -> None:
    """Writes a picture of a run's curves in TensorBoard."""
    with tensorboard(logdir) as url:
        page = browser.new_page(viewport={"width": 1280, "height": 830})
        page.goto(f"{url}?tagFilter={TAGS}#timeseries")
        page.wait_for_selector("card-view", timeout=60_000)
        page.get_by_text("Enable step selection").first.click()  # off: it takes half of each card for a table
        page.get_by_role("button", name="Settings").last.click()  # closes the side bar
        page.wait_for_timeout(5_000)  # curves are drawn over some frames, and nothing says when it is done
        page.screenshot(path=path)
        page.close()
    compress(path)


def photograph_frame(logdir: pathlib.Path, path: pathlib.Path) -> None:
    """Writes the frame in the middle of an episode that the newest policy of a run plays."""
    with tempfile.TemporaryDirectory() as scratch:
        movie = os.path.join(scratch, "play.gif")
        seed_rl("play", f"--logdir={logdir}", "--greedy", f"--output={movie}")
        frames = imageio.mimread(movie, memtest=False)
    frame = Image.fromarray(frames[len(frames) // 2]).convert("RGB")
    factor = max(1, FRAME_HEIGHT // frame.height)
    frame.resize((frame.width * factor, frame.height * factor), Image.Resampling.NEAREST).save(path)
    compress(path)


def seed_rl(*arguments: str) -> None:
    """Runs a command of the product to its end.

    Raises:
      PictureError: it fails.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "seed_rl", *arguments], capture_output=True, text=True, env=environment
    )
    if done.returncode:
        raise PictureError(f"seed_rl {' '.join(arguments)} failed: {done.stderr[-500:]}")


def compress(path: pathlib.Path) -> None:
    """Brings a picture to at most 256 colors, which screens of text and curves don't exceed visibly.

    Raises:
      PictureError: it is still larger than a repository should hold.
    """
    with Image.open(path) as image:
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    if path.stat().st_size > LARGEST:
        raise PictureError(f"{path} has {path.stat().st_size:,} bytes, more than {LARGEST:,}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pong_logdir", type=pathlib.Path, help="a run for TensorBoard and the frame; default: Catch")
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
            written = screens([sys.executable, "-m", "seed_rl", *TRAINING], place, seconds=600)
            terminal = Terminal(COLUMNS, LINES)
            terminal.feed(well_on(written))
            page = terminal_page(terminal.text(), f"seed_rl {' '.join(TRAINING)}")
            photograph_terminal(browser, page, arguments.output / "terminal.png")
            logdir = arguments.pong_logdir or place / RUN
            photograph_tensorboard(browser, logdir.absolute(), arguments.output / "tensorboard.png")
            photograph_frame(logdir.absolute(), arguments.output / "frame.png")
        except PictureError as error:
            print(error, file=sys.stderr)
            return 1
        finally:
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
