"""Commands that execute recorded runs again, and compare them."""

from __future__ import annotations

import sys
import tempfile
import time

from absl import flags

from seed_rl.cli.command import command
from seed_rl.cli.errors import UsageError
from seed_rl.cli.flags import IMPORT_MODULE, boolean, directory, integer, string
from seed_rl.journal.errors import Differs, JournalError
from seed_rl.learner.checkpoints import CheckpointError
from seed_rl.reporting.text import duration
from seed_rl.runs.fleet import ActorFailed
from seed_rl.runs.replay import replay as replayed


@command(
    "seed_rl replay runs/pong",
    string("from", "", "Checkpoint to begin at, from which a learner of the run continued."),
    integer("until", None, "Number of updates to end at; default: all.", lower_bound=1),
    boolean("check", True, "Compare digests of all weights with the recorded ones."),
    directory("logdir", "Where to keep checkpoints and metrics of the replay; default: nowhere."),
    IMPORT_MODULE,
    takes_paths=True,
    failures=(JournalError, Differs, ActorFailed, CheckpointError),
)
def replay(values: flags.FlagValues, *logdirs: str) -> int:
    """Executes a recorded run again, to the bit, and says whether it came out the same."""
    if len(logdirs) != 1:
        raise UsageError(f"expected one log directory, got {len(logdirs)}")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="seed_rl-replay-") as temporary:
        last = None
        for last in replayed(logdirs[0], values.logdir or temporary, values["from"].value, values.until, values.check):
            ratio = f"{last.updates} of {last.end} updates, {last.row['env_frames']:,.0f} frames"
            print(f"{duration(time.monotonic() - began)}: {ratio}, {last.checked} digests equal", file=sys.stderr)
    if last is None:
        raise JournalError(f"{logdirs[0]} has no update to replay")
    if values.check:
        print(f"seed_rl: {last.checked} digests of {last.end} updates are equal, the first and the last included")
    return 0
