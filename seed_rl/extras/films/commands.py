"""The command that films a policy."""

import contextlib
import os
import sys

from seed_rl.cli import flags
from seed_rl.cli.commands.policies import ACTING, HERE, POLICY, acting, place_of, usable_run
from seed_rl.cli.flags import RunOption, command
from seed_rl.errors import UsageError
from seed_rl.extras.films.during_training import film_every
from seed_rl.runs.run import Run
from seed_rl.system.files import explaining
from seed_rl.system.signals import signals, stop_with_parent


@command(
    "seed_rl play --logdir=runs/pong --output=pong.mp4,pong.gif",
    *POLICY,
    *ACTING,
    flags.integer("episodes", 1, "Number of consecutive episodes to film.", lower_bound=1),
    flags.comma_separated("output", None, f"Files to write, .mp4 or .gif; default: play.mp4 and play.gif {HERE}."),
    flags.OVERWRITE,
    flags.number("fps", 15.0, "Agent steps per second.", lower_bound=0.1),
    flags.number(
        "max_mb", None, "End at this size of the files (MB) or after ten minutes.", lower_bound=flags.POSITIVE
    ),
    flags.EXIT_WITH_PARENT,
)
def play(values: flags.FlagValues) -> int:
    """Films episodes played by a run's policy."""
    for path in values.output or ():
        if os.path.splitext(path)[1] not in (".mp4", ".gif"):
            raise UsageError(f"--output files must end in .mp4 or .gif, got {path}")
    with signals() as stopped, usable_run(values, place_of(values), "play.mp4", "play.gif") as (logdir, paths):
        stopped.raises = True
        if values.exit_with_parent:
            stop_with_parent(stopped)
        from seed_rl.extras.films.film import Limits, film_run

        with explaining(UsageError, f"--output {', '.join(paths)} can't be written"):
            limits = Limits() if values.exit_with_parent else None
            limits = limits if values.max_mb is None else Limits(size=round(1e6 * values.max_mb))
            how = {**acting(values), "episodes": values.episodes, "fps": values.fps}
            played = film_run(logdir, *paths, **how, limits=limits)
        print(f"returns: {', '.join(f'{value:g}' for value in played.returns)}")
        print("\n".join(paths))
    if stopped.raised:
        print("seed_rl: interrupted", file=sys.stderr)
    return stopped.exit_code


def _filming(values: flags.FlagValues, run: Run) -> contextlib.AbstractContextManager[object]:
    if values.film_every:
        film_every(values.film_every, run)
    return contextlib.nullcontext()


_EVERY = flags.number("film_every", None, "Minutes between films of the policy; 0: none.", lower_bound=0.0)
OPTION = RunOption(_EVERY, _filming)
