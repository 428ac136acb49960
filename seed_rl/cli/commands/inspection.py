"""Commands that inspect the shipped experiments, environments, this machine and past runs."""

import inspect
import os
from collections.abc import Mapping, Sequence

from seed_rl.cli import flags
from seed_rl.cli.flags import check_outputs, command
from seed_rl.envs import elsewhere, registry
from seed_rl.envs.base import EnvConfig
from seed_rl.envs.show import show_observations
from seed_rl.errors import Failure, UsageError
from seed_rl.experiment import config_files
from seed_rl.specs import EnvDescription
from seed_rl.system.files import explaining


@command(
    "seed_rl configs gym/any --agent=ppo > mine.gin",
    flags.repeated("gin_param", [], "Setting that overrides the files; repeatable."),
    flags.choice("agent", None, config_files.agents(), "Replace the agent of the files."),
    arguments="gin files to show, such as gym/any; none: list the shipped ones.",
)
def configs(values: flags.FlagValues, *files: str) -> int:
    """Lists the shipped experiments, or shows every setting of one."""
    if files:
        print(config_files.to_gin(config_files.load(files, values.gin_param, values.agent), documented=True), end="")
    else:
        _print_table({name: config_files.summary(name) for name in config_files.shipped_configs()})
    return 0


def _print_table(texts: Mapping[str, str]) -> None:
    widest = max(map(len, texts))
    for name, text in texts.items():
        print(f"{name:{widest}}  {text}")


@command(
    "seed_rl envs check CartPole-v1",
    flags.string("options", "{}", "Keyword arguments of the environment to check, as a JSON object."),
    flags.repeated("gin_param", [], "Setting of the environment to check, such as Gym.frame_size=84; repeatable."),
    flags.string("show", None, "Directory for what a network gets from the environment: text, and pictures as PNG."),
    flags.IMPORT_MODULE,
    arguments="suites to show; or check, followed by the ids or suites to check.",
)
def envs(values: flags.FlagValues, *suites: str) -> int:
    """Lists the suites, or the games, levels and ids of one; or checks an id."""
    if suites[:1] == ("check",):
        return _check(suites[1:], values)
    if not suites:
        _print_table({name: _summary(registry.suite(name)) for name in registry.names()})
    for name in suites:
        suite = registry.suite(name)
        settings = f"{name} has no tasks to choose from, only settings:\n\n{config_files.bindings(suite(), True)}"
        print("\n".join(suite.tasks()) or settings)
    return 0


def _summary(suite: type[EnvConfig]) -> str:
    known = f" {suite.__name__}.{suite.task_setting}: {len(suite.tasks())} known." if suite.task_setting else ""
    return f"{inspect.getdoc(suite) or ''}".partition("\n")[0] + known


def _check(ids: Sequence[str], values: flags.FlagValues) -> int:
    """Try out Gymnasium environments or suites and print the findings."""
    if not ids:
        raise UsageError("expected an environment to check, such as CartPole-v1, or a suite")
    if values.show and len(ids) > 1:
        raise UsageError(f"--show is for one environment, got {', '.join(ids)}")
    found = {}
    for name in ids:
        description = EnvDescription("gym", {"id": name, "options": values.options})
        if name in registry.names():
            description = EnvDescription(name)
            if values.options != "{}":
                raise UsageError(f"--options is only for Gymnasium environments; {name} is a suite")
        found[name] = config_files.change(registry.from_description(description), values.gin_param)
    for name, config in found.items():
        print("\n  ".join([f"{name}: ok", *elsewhere.findings(config)]))
        if values.show:
            with explaining(UsageError, f"--show={values.show} can't be written"):
                print(f"  {show_observations(config, values.show)} files in {values.show}")
    return 0


@command(
    "seed_rl doctor --logdir=runs/pong",
    flags.string("logdir", None, "Log directory of a planned run, to check as well."),
)
def doctor(values: flags.FlagValues) -> int:
    """Checks the installation and says how to get missing parts."""
    from seed_rl.cli.doctor import BROKEN, examine

    findings = examine(values.logdir)
    widest = max(map(len, findings))
    _print_table({f"{state:8} {subject:{widest}}": text for subject, (state, text) in findings.items()})
    broken = [subject for subject, (state, _) in findings.items() if state == BROKEN]
    return UsageError.exit_code if broken == ["log directory"] else Failure.exit_code if broken else 0


@command(
    "seed_rl plot runs/pong runs/pong_lstm --output=pong.png,pong.svg",
    flags.comma_separated("output", ["curve.png"], "Files to write; the extension (.png, .svg, .pdf) sets the format."),
    flags.choice("x", "frames", ["frames", "hours", "score"], "Horizontal axis; score: shares of runs above it."),
    flags.OVERWRITE,
    flags.IMPORT_MODULE,
    arguments="log directories of runs, or directories that contain some.",
)
def plot(values: flags.FlagValues, *places: str) -> int:
    """Draws learning curves or scores, one curve per configuration."""
    if not places:
        raise UsageError("expected at least one log directory")
    for path in values.output or [""]:
        if not os.path.splitext(path)[1]:
            raise UsageError(f"--output files must have an extension, such as .png, .svg or .pdf, got {path}")
    check_outputs(values.output, values.overwrite)
    from seed_rl.evaluation.plot import plot_curves, plot_profiles

    try:
        if values.x == "score":
            plot_profiles(places, values.output)
        else:
            plot_curves(places, values.output, values.x)
    except (OSError, ValueError) as error:  # ValueError: matplotlib doesn't know the format
        raise UsageError(str(error)) from error
    print("\n".join(values.output))
    return 0
