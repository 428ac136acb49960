"""A whole run as a terminal shows it."""

import contextlib
import os
import pty
import re
import subprocess
import sys
import termios

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from screen import screen

COLUMNS = 80


def on_a_terminal(arguments, cwd, **environment):
    """Runs a command on a terminal of 80 columns; returns what it sent there, and the exit code."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, COLUMNS))
    process = subprocess.Popen(
        [sys.executable, "-m", "seed_rl", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=cwd,
        env={**os.environ, "TERM": "xterm-256color", **environment},
        start_new_session=True,
    )
    os.close(theirs)
    received = b""
    with contextlib.suppress(OSError):  # the terminal is closed by the last process that has it
        while piece := os.read(ours, 65536):
            received += piece
    os.close(ours)
    return received.decode().replace("\r\r\n", "\r\n"), process.wait(60)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    directory = tmp_path_factory.mktemp("terminal")
    arguments = ["train", "--gin_file=catch/vtrace", "--total_frames=40000", "--logdir=here"]
    return on_a_terminal([*arguments, "--gin_param=Logs.metrics_interval_s=0.3"], directory)


def test_the_panel_is_there_once_in_its_last_state_and_below_what_was_logged(run):
    output, code = run
    assert code == 0, output
    lines = screen(output, COLUMNS)
    text = "\n".join(lines)
    assert text.count("─ seed_rl ─") == text.count("╰──") == 1, text
    assert output.count("of 40k frames") > 2, "it was renewed"
    frame = lines[next(n for n, line in enumerate(lines) if "╭" in line) :]
    assert re.search(r"100%  4\d(\.\d)?k of 40k frames", frame[1]), text
    assert any(re.fullmatch(r"│ speed +\S+ frames/s on average, done in \d+s +│", line) for line in frame), text
    assert any(re.fullmatch(r"│ return +-?\d\.\d\d  [▁▂▃▄▅▆▇█]{2,} *│", line) for line in frame), text
    assert any(re.fullmatch(r"│ connected +32( of 32)? environments of 1 actor +│", line) for line in frame), text
    assert any(re.fullmatch(r"│ stored in +here +│", line) for line in frame), text
    end = next(n for n, line in enumerate(frame) if "╰" in line)
    assert all(line[0] == line[-1] == "│" for line in frame[1:end]), f"torn:\n{text}"


def test_what_is_logged_meanwhile_stands_above_it(run):
    lines = screen(run[0], COLUMNS)
    top = next(n for n, line in enumerate(lines) if "╭" in line)
    logged = [n for n, line in enumerate(lines) if "serving actors at" in line]
    assert len(logged) == 1
    assert logged[0] < top
    assert "updates; checkpoints" in "".join(lines[:top])


def test_while_the_panel_is_there_no_line_is_wider_than_the_terminal(run):
    hidden, shown = "\x1b[?25l", "\x1b[?25h"  # the cursor
    live = run[0].split(hidden)[1].split(shown)[0]
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", live)
    lines = re.split(r"[\r\n]+", plain)
    assert len(lines) > 20
    assert [line for line in lines if len(line) > COLUMNS] == []


def test_nothing_of_native_libraries_reaches_the_terminal(run):
    assert not re.search(r"oneDNN|cudart|absl::|WARNING", run[0])
