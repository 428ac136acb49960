"""Commands that only look: at what is shipped, at this machine, at runs."""

from __future__ import annotations

from absl import flags

from seed_rl import config_files
from seed_rl.launch.cli import FAILURE, UsageError
from seed_rl.object_store import CannotReach


def configs(values: flags.FlagValues) -> int:
    """Lists the shipped experiments."""
    names = config_files.shipped_configs()
    widest = max(map(len, names))
    for name in names:
        print(f"{name:{widest}}  {config_files.summary(name)}")
    return 0


def doctor(values: flags.FlagValues) -> int:
    """Checks the installation; the exit code is 1 if nothing will work."""
    from seed_rl.launch.doctor import BROKEN, examine

    findings = examine(values.logdir)
    widest = max(len(finding.what) for finding in findings)
    for finding in findings:
        print(f"{finding.state:8} {finding.what:{widest}}  {finding.text}")
    return FAILURE if any(finding.state == BROKEN for finding in findings) else 0


def plot(values: flags.FlagValues, *places: str) -> int:
    """Draws learning curves."""
    from seed_rl.launch.plot import NoCurve, plot_curves

    if not places:
        raise UsageError("name at least one log directory")
    try:
        plot_curves(places, values.output, values.x)
    except (CannotReach, NoCurve, OSError, ValueError) as error:  # ValueError: an ending that matplotlib doesn't know
        raise UsageError(str(error)) from error
    print("\n".join(values.output))
    return 0
