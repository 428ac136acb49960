"""Commands that only look: at the shipped experiments, at this machine, at runs."""

from __future__ import annotations

from absl import flags

from seed_rl import config_files
from seed_rl.launch.cli import FAILURE, UsageError, command
from seed_rl.launch.flags import choice, comma_separated, string
from seed_rl.object_store import CannotReach


@command("seed_rl configs")
def configs(values: flags.FlagValues) -> int:
    """Lists the shipped experiments."""
    names = config_files.shipped_configs()
    widest = max(map(len, names))
    for name in names:
        print(f"{name:{widest}}  {config_files.summary(name)}")
    return 0


@command(
    "seed_rl doctor --logdir=gs://bucket/run",
    string("logdir", None, "Log directory of a future run, which is checked as well."),
)
def doctor(values: flags.FlagValues) -> int:
    """Checks the installation: lists missing parts, and how to get them."""
    from seed_rl.launch.doctor import BROKEN, examine

    findings = examine(values.logdir)
    widest = max(len(finding.subject) for finding in findings)
    for finding in findings:
        print(f"{finding.state:8} {finding.subject:{widest}}  {finding.text}")
    return FAILURE if any(finding.state == BROKEN for finding in findings) else 0


@command(
    "seed_rl plot runs/pong runs/pong_lstm --output=pong.png,pong.svg",
    comma_separated("output", ["curve.png"], "Files to write; their endings say the format: .png, .svg, .pdf."),
    choice("x", "frames", ["frames", "hours"], "Horizontal axis."),
    takes_paths=True,
)
def plot(values: flags.FlagValues, *places: str) -> int:
    """Draws the learning curves of runs; seeds of one configuration as one curve."""
    from seed_rl.launch.plot import NoCurve, plot_curves

    if not places:
        raise UsageError("name at least one log directory")
    try:
        plot_curves(places, values.output, values.x)
    except (CannotReach, NoCurve, OSError, ValueError) as error:  # ValueError: an ending that matplotlib doesn't know
        raise UsageError(str(error)) from error
    print("\n".join(values.output))
    return 0
