"""Gin files: finding, reading, summarising and writing them; saving and comparing the configurations of runs."""

import ast
import copy
import dataclasses
import glob
import inspect
import itertools
import json
import os
import re
import textwrap
import tokenize
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gin

from seed_rl.agents.config import AgentConfig
from seed_rl.errors import UsageError
from seed_rl.experiment import Actors, ConfigError, Experiment
from seed_rl.experiment.gone import without_gone, without_gone_in_text
from seed_rl.experiment.optimizer import Optimizer
from seed_rl.experiment.own_gin import SHIPPED, check_references, own_gin, references_in
from seed_rl.experiment.saved_config import CHOSEN, SAVED, groups, saved_settings
from seed_rl.foreign import description_of, short_repr, without_gin
from seed_rl.networks.config import TrunkConfig
from seed_rl.settings import Settings, SettingsT, did_you_mean, subclasses
from seed_rl.system.files import complete_or_absent

MAY_CHANGE = (
    *("actors.", "inference.", "devices.", "logs.", "replay.placement", "replay.snapshot", "init_from", "agent.dtype"),
    "env.threads",
)
"""Settings that hardly affect what is learned from a frame: they may change when a run is resumed, and
differ between learners of one run."""
_EVALUATED = ("actors.eval_options", "actors.greedy_evaluation")
"""Settings below `actors.` on which scores depend."""

_AGENTS = "agents/"
# Settings of networks and data that come with a new agent; `load` keeps the others.
_OF_AN_AGENT = {
    *("unroll_length", "mlp_layers", "kernel_initializer", "layer_norm", "observation_norm", "clip_reward_input")
}


def load(gin_files: str | Sequence[str], gin_params: str | Sequence[str] = (), agent: str | None = None) -> Experiment:
    """Build an experiment from gin files and bindings.

    Args:
      gin_files: one or several paths, or names of shipped files with or without extension (`atari/vtrace_pong`).
      gin_params: bindings such as `Optimizer.learning_rate = 1e-4`, which override the files. Single words need no
        quotes: `Atari.game = breakout`.
      agent: one of `agents()`, which replaces the agent of the files; its own file is read before `gin_params`, while
        network, discount and rewards stay the same.

    Raises:
      ConfigError: a file is missing, or a parameter is unknown or has an invalid value.
    """
    files = [gin_files] if isinstance(gin_files, str) else gin_files
    params = [gin_params] if isinstance(gin_params, str) else gin_params
    experiment = _read(Experiment, files, params, agent)
    _refuse_unused_groups(params, experiment)
    return experiment


def change(settings: SettingsT, gin_params: Sequence[str]) -> SettingsT:
    """Return a group of settings with some changed, also in nested groups, by gin bindings, or raise ConfigError."""
    every = list(groups(settings))
    names = [type(group).__name__ for group in every]
    for binding in gin_params:
        if binding.partition(".")[0].strip() not in names:
            raise ConfigError(f"only settings of {' and '.join(names)} can be changed here, got {binding!r}")
    return _read(type(settings), [], ["\n".join(map(bindings, every)), *gin_params])


def _read(
    kind: type[SettingsT], gin_files: Sequence[str], gin_params: Sequence[str], agent: str | None = None
) -> SettingsT:
    """Build settings from gin files and bindings; raise ConfigError if they are wrong."""
    with own_gin() as references:
        try:
            for name in gin_files:
                _parse(gin.parse_config_file, find_config(name))
            if agent is not None:
                _change_agent(agent)
            for binding in gin_params:
                current = without_gone_in_text(_quote(binding), "gin_params")
                _parse(gin.parse_config, current, f"{binding!r}: ", binding.partition("=")[0].strip())
                references.update(references_in(binding))
            check_references()
            _refuse_unused_scopes(gin.config_str())
            bound = gin.get_bindings("Experiment", resolve_references=False)
            if kind is Experiment and not {"env", "agent"} <= bound.keys():
                raise ConfigError("Experiment.env and Experiment.agent must be set, as an include of gym/any.gin does")
            made = kind()  # gin supplies the arguments
            _refuse_unused_macros(gin.config_str(), references, made)
            return made
        except ConfigError:
            raise
        except (TypeError, ValueError, UsageError) as error:
            raise ConfigError(without_gin(error)) from error


def _change_agent(name: str) -> None:
    """Read the gin file of an agent; task, network and number of environments stay as in the files read before."""
    old, reserved = _agent(), gin.get_bindings("Actors").get("num_eval_envs")
    if type(old).__name__.lower() == name:
        return
    for field in dataclasses.fields(Optimizer):  # comes with the agent, as a whole
        gin.bind_parameter(f"Optimizer.{field.name}", field.default)
    _parse(gin.parse_config_file, find_config(_AGENTS + name))
    if reserved:
        gin.bind_parameter("Actors.num_eval_envs", reserved)
    new = _agent()
    if not new.learns_from_replay:
        bound = gin.get_bindings("Experiment", resolve_references=False)
        is_new = old is None or old.learns_from_replay
        size = Actors().num_training_envs if is_new else bound.get("batch_size", Experiment.batch_size)
        parts = bound["minibatches"]
        gin.bind_parameter("Experiment.batch_size", max(size - size % parts, parts))
    for base in (TrunkConfig, AgentConfig) if old is not None else ():
        for field in (field for field in dataclasses.fields(base) if field.name not in _OF_AN_AGENT):
            value = getattr(old, field.name, field.default)
            if base is AgentConfig or value != field.default:
                gin.bind_parameter(f"{type(new).__name__}.{field.name}", value)


def _agent() -> Any:
    """Return the agent that the files read so far have chosen, or None."""
    return copy.deepcopy(gin.get_bindings("Experiment", resolve_references=False).get("agent"))  # gin's call


def _parse(parse: Callable[[str], Any], argument: str, prefix: str = "", setting: str = "") -> None:
    """Let gin parse an argument; raise ConfigError with the prefix, gin's words, and the known setting most like it."""
    try:
        parse(argument)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{argument} is not a gin file: it is not UTF-8 text") from error
    except SystemExit as error:
        raise ConfigError(f"{argument} imports a module that exits the program: {description_of(error)}") from error
    except Exception as error:  # gin and imported modules may raise anything
        if isinstance(error, tokenize.TokenError):  # a tuple of its message and its place
            error = ValueError(error.args[0])
        message, guess = without_gin(error).rstrip("."), _guess(setting)
        if "No configurable matching" in message:
            message += "; a class is known once a file or binding imports its module, as `import seed_rl.envs.gym` does"
        raise ConfigError(f"{prefix}{message}{guess and '.'}{guess}") from error


def _guess(setting: str) -> str:
    """ " Did you mean X?" with the setting most like an unknown one; empty if it is known, or if none is similar."""
    known = {f"{group.__name__}.{field.name}" for group in subclasses(Settings) for field in dataclasses.fields(group)}
    return "" if setting in known else did_you_mean(setting, known)


def _refuse_unused_scopes(bindings: str) -> None:
    for scope, setting in re.findall(r"^([\w./]+)/(\w+\.\w+) =", bindings, re.MULTILINE):
        if f"@{scope}/" not in bindings:
            raise ConfigError(f"{scope}/{setting} has no effect: nothing refers to this scope, as @{scope}/... would")


def _refuse_unused_macros(bindings: str, references: set[str], made: Settings) -> None:
    for name in re.findall(r"^([\w/]+) =", bindings, re.MULTILINE):
        if name not in references:
            own = [f"{type(group).__name__}.{name}" for group in groups(made) if name in vars(group)]
            guess = f". Did you mean {' or '.join(own)}?" if own else ""
            raise ConfigError(f"{name} has no effect: nothing refers to it, as %{name} would{guess}")


def _refuse_unused_groups(gin_params: Sequence[str], experiment: Experiment) -> None:
    used = {type(group).__name__ for group in groups(experiment)}
    unused = {group.__name__ for group in subclasses(Settings)} - used
    for binding in gin_params:
        if (name := binding.partition(".")[0].strip()) in unused:
            raise ConfigError(f"{binding!r} has no effect: the experiment has {', '.join(sorted(used))}, but no {name}")


def _quote(binding: str) -> str:
    """Quote the value of a binding if it is a bare word, a number such as 300k or a JSON object."""
    match = re.fullmatch(r"\s*([\w./]+)\s*=\s*([A-Za-z/][\w./:-]*|[\d_.]+[kmgKMG]|\{.*\})\s*", binding)
    return f"{match[1]} = {match[2]!r}" if match and match[2] not in ("True", "False", "None") else binding


def find_config(name: str) -> str:
    """Return the path of a gin file given as a path or as the name of a shipped file."""
    for path in (name, os.path.join(SHIPPED, name), os.path.join(SHIPPED, f"{name}.gin")):
        if os.path.isfile(path):
            return path
    if name and (os.path.isdir(name) or os.path.isdir(os.path.join(SHIPPED, name))):
        files = [own for own in _shipped_files() if own.startswith(f"{name}/")]
        inside = ", ".join(files or sorted(glob.glob(os.path.join(glob.escape(name), "*.gin"))))
        raise ConfigError(f"expected a gin file, but {name} is a directory{inside and ' with '}{inside}")
    if guess := did_you_mean(name.removesuffix(".gin"), _shipped_files()):
        raise ConfigError(f"no gin file {name!r}.{guess}")
    raise ConfigError(f"no gin file {name!r}; expected the path of a file or one of {', '.join(shipped_configs())}")


def shipped_configs() -> list[str]:
    """Return the names of the experiments shipped with the package, without extension."""
    return [name for name in _shipped_files() if not name.startswith(_AGENTS)]


def agents() -> list[str]:
    """Return the agents that `load` can put in place of another."""
    return [name.removeprefix(_AGENTS) for name in _shipped_files() if name.startswith(_AGENTS)]


def _shipped_files() -> list[str]:
    return sorted(name.removesuffix(".gin") for name in glob.glob("**/*.gin", root_dir=SHIPPED, recursive=True))


def summary(name: str) -> str:
    """Return the summary of a shipped gin file: the first sentence of its leading comment."""
    with open(find_config(name), encoding="utf-8") as file:
        comment = itertools.takewhile(lambda line: line.startswith("#"), file)
        text = " ".join(line.removeprefix("#").strip() for line in comment)
    return re.split(r"(?<=\.)\s", text, maxsplit=1)[0]


def differences_from_saved(experiment: Experiment, logdir: str) -> list[str]:
    """Return the `differences` from the run in a log directory, or raise ConfigError; empty if there is no run."""
    try:
        saved = saved_settings(logdir)
    except FileNotFoundError:
        return []
    return differences(experiment, saved, os.path.join(logdir, SAVED))


def differences(experiment: Experiment, saved: Mapping[str, Any], place: str = "the record") -> list[str]:
    """Describe the changed settings that prevent an experiment from continuing a run, in a phrase each.

    The length of the run may change unless its learning rate depends on it. `saved` is the run's `Experiment.to_json`,
    from a place that a ConfigError names if it has a setting that is gone.
    """
    saved = without_gone(saved, place)
    # Both have JSON's types, and one name for a group of settings, which may be None, and for its kind.
    own = json.loads(json.dumps(experiment.to_json()))
    current, saved = ({name.removesuffix(".kind"): each[name] for name in each} for each in (own, saved))
    schedule = experiment.optimizer.schedule
    free = (*MAY_CHANGE, "total_frames") if schedule == "constant" else MAY_CHANGE
    why = {"total_frames": f" (the {schedule} schedule of the learning rate depends on it)"}
    return [
        f"{name} was {short_repr(saved[name])} and is now {short_repr(current[name])}{why.get(name, '')}"
        for name in current
        if name in saved and saved[name] != current[name] and (name.startswith(_EVALUATED) or not name.startswith(free))
    ]


def save_config(experiment: Experiment, logdir: str, chosen: Mapping[str, str] | None = None) -> None:
    """Write all settings into the log directory, as `config.gin` for people and as `config.json`, which is read again.

    The latter also says what was `chosen` on this machine for settings that leave it open, by their dotted names.
    """
    os.makedirs(logdir, exist_ok=True)
    data = {**experiment.to_json(), **{f"{name}{CHOSEN}": value for name, value in (chosen or {}).items()}}
    for name, text in (("config.gin", to_gin(experiment)), (SAVED, json.dumps(data, indent=2) + "\n")):
        with complete_or_absent(os.path.join(logdir, name)) as file:
            file.write(text.encode())


def to_gin(experiment: Experiment, documented: bool = False) -> str:
    """Format a self-contained gin file that binds every setting, each below its documentation if `documented`."""
    every = list(groups(experiment))
    imports = {f"import {type(group).__module__}" for group in every if type(group).__module__ != Experiment.__module__}
    return "\n\n".join(["\n".join(sorted(imports)), *(bindings(group, documented) for group in every)]) + "\n"


def bindings(group: Settings, documented: bool = False) -> str:
    """Format the gin bindings of a group of settings; see `to_gin`."""
    name, docs = type(group).__name__, documentation(type(group)) if documented else {}
    values = {field.name: getattr(group, field.name) for field in dataclasses.fields(group)}
    texts = {key: f"@{type(v).__name__}()" if dataclasses.is_dataclass(v) else repr(v) for key, v in values.items()}
    comments = {key: [f"# {line}\n" for line in textwrap.wrap(docs.get(key, ""), 100)] for key in texts}
    return "\n".join(f"{''.join(comments[key])}{name}.{key} = {text}" for key, text in texts.items())


def documentation(kind: type[Any]) -> dict[str, str]:
    """The text below each field of a dataclass or its base classes, on one line, by name of the field."""
    found: dict[str, str] = {}
    for declaring in (own for own in reversed(kind.__mro__) if dataclasses.is_dataclass(own)):
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(declaring))).body
        for field, text in itertools.pairwise(getattr(definition, "body", ())):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                    found[name] = " ".join(words.split())
    return found
