"""A whole run as a terminal shows it."""

import re
import sys

from rich.text import Text

from scripts import pictures
from tests.integration.devices_test import CATCH


def test_the_panel_is_there_once_in_its_last_state_below_the_log_and_never_torn_or_too_wide(tmp_path):
    command = [sys.executable, "-m", "seed_rl", "train", *CATCH, "--total_frames=2000", "--logdir=here"]
    output = pictures.recording(command, tmp_path, seconds=240)  # all that the run writes to a terminal
    text = Text.from_ansi(pictures.screen(output)).plain
    lines = [line.rstrip() for line in text.splitlines()]
    assert text.count("─ seed_rl ─") == text.count("╰──") == 1, text
    assert output.count("of 2k frames") > 2, "it was renewed"
    top = next(n for n, line in enumerate(lines) if "╭" in line)
    frame = lines[top:]
    assert re.search(r"100%  2(\.\d+)?k of 2k frames", frame[1]), text
    for row in (
        r"speed +\S+ frames/s on average, done in (\d+m)?\d+s +",
        r"return +-?\d\.\d\d  [▁▂▃▄▅▆▇█]{2,} *",
        r"connected +2( of 2)? environments of 1 actor +",
        r"stored in +here +",
    ):
        assert any(re.fullmatch(rf"│ {row}│", line) for line in frame), text
    end = next(n for n, line in enumerate(frame) if "╰" in line)
    assert all(line[0] == line[-1] == "│" for line in frame[1:end]), f"torn:\n{text}"
    (logged,) = [n for n, line in enumerate(lines) if "serving actors at" in line]
    assert logged < top
    assert "updates; checkpoints" in "".join(lines[:top])

    hidden, shown = "\x1b[?25l", "\x1b[?25h"  # the cursor
    live = output.split(hidden)[1].split(shown)[0]
    lines = re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", live))
    assert len(lines) > 20
    assert [line for line in lines if len(line) > pictures.COLUMNS] == []
    assert not re.search(r"oneDNN|cudart|absl::|WARNING", output), "native output"
