"""Settings that earlier versions had: what a configuration from then means today."""

import ast
import contextlib
import functools
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from seed_rl.experiment.experiment import ConfigError
from seed_rl.foreign import short_repr

_log = logging.getLogger(__name__)


class _Gone(NamedTuple):
    """A setting that is gone."""

    since: str  # date of the commit without it
    did: str  # at other values than those without effect, after "it"
    without_effect: tuple[Any, ...] = ()  # values that changed nothing; none: no value changes what is learned
    today: Callable[[Any], dict[str, Any]] = lambda value: {}  # returns the settings that mean the same, by name
    kind: type[Any] = object  # of the values that are gone, of a setting that still has others


def _core(units: int) -> dict[str, Any]:
    return {"core": "lstm", "core_units": units} if units else {"core": "none"}


_LAYER_NORM = {True: {"layer_norm": "all"}, False: {"layer_norm": "none"}}
_AGENTS, _TWO = "VTrace PPO PQN R2D2 SAC", "VTrace PPO"
_TARGET = _Gone("2026-11-25", "said how the target network of V-trace follows")
_VALUE, _NORM = "bounded the step of values, which nothing does now", "divided rewards by the deviation of returns"
_OLDER = "took targets and ratios from older weights (IMPACT), which nothing does now"
_STOP = "ended an update once the policy had moved that far, which nothing does now"
_PASSED_ON = _Gone("2026-11-29", "was given to the task, which MuJoCo.options does now", (None,))
_TABLE = {
    (_AGENTS, "lstm_units"): _Gone("2026-11-22", "is named core_units", today=_core),
    (_AGENTS, "layer_norm"): _Gone("2026-11-25", "is a text", today=_LAYER_NORM.__getitem__, kind=bool),
    ("VTrace", "clip_value"): _Gone("2026-11-25", _VALUE, (0,)),
    ("VTrace", "gae"): _Gone("2026-11-25", "replaced V-trace's targets by PPO's, which are PPO's own now", (False,)),
    (_TWO, "target_network"): _Gone("2026-11-25", _OLDER, (False,)),
    (_TWO, "target_update_period"): _TARGET,
    (_TWO, "target_update_rate"): _TARGET,
    ("Logs", "film_interval_min"): _Gone("2026-11-27", "filmed the policy, as `train --film_every` does"),
    (_TWO, "network_per_role"): _Gone("2026-11-27", "gave each role a network, which nothing does now", (False,)),
    (_AGENTS, "reward_norm"): _Gone("2026-11-28", f"{_NORM}, as Gymnasium's NormalizeReward does", (False,)),
    (_TWO, "kl_stop"): _Gone("2026-11-28", _STOP, (0,)),
    ("PPO", "clip_value"): _Gone("2026-11-29", _VALUE, (0,)),
    ("Logs", "milestones"): _Gone("2026-11-29", "forecast returns on the display"),
    ("Inference", "queue_batches"): _Gone("2026-11-29", "let more unrolls wait, which are a batch now", (1,)),
    ("Inference", "max_reward"): _Gone("2026-11-29", "bounded rewards, whose bound is 1e6 now", (1e6,)),
    ("Inference", "max_observation"): _Gone("2026-11-29", "bounded observations, whose bound is 1e8 now", (1e8,)),
    ("DMLab", "instructions"): _Gone("2026-11-29", "gave or hid the instruction, against the level", (None,)),
    ("DMLab", "runfiles_path"): _Gone("2026-11-29", "replaced the files in the simulator's package", ("",)),
    **{("MuJoCo", name): _PASSED_ON for name in ("max_episode_steps", "frame_skip", "reset_noise_scale")},
    **{("MuJoCo", f"{name}_weight"): _PASSED_ON for name in ("forward_reward", "ctrl_cost")},
    ("MuJoCo", "terminate_when_unhealthy"): _PASSED_ON,
}
GONE = {f"{kind}.{name}": gone for (kinds, name), gone in _TABLE.items() for kind in kinds.split()}
"""Each setting that is gone, as `Class.name`."""
MOVED = {
    **{f"seed_rl.agents.{name}.config": f"seed_rl.agents.{name}" for name in ("ppo", "pqn", "r2d2", "sac", "vtrace")},
    "seed_rl.experiment.logs": "seed_rl.experiment.experiment",
    "seed_rl.optimizers": "seed_rl.experiment.optimizer",
    "seed_rl.testing.memory": "seed_rl.envs.memory",
}
"""Where classes of settings are today that gin files import from another module."""

_NAMED = re.compile(rf"^[ \t]*(?:[\w./]+/)?({'|'.join(map(re.escape, GONE))})[ \t]*=[ \t]*", re.MULTILINE)
_IMPORT = re.compile(rf"^import ({'|'.join(map(re.escape, MOVED))})\b", re.MULTILINE)


def without_gone(settings: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return the settings in a `config.json`, or a record like it, without those that are gone.

    Raises ConfigError if one of them had an effect that nothing has today.
    """
    found, left_out = dict(settings), []
    for name, value in settings.items():
        group, dot, own = name.rpartition(".")
        setting = f"{settings.get(f'{group}.kind') if group else 'Experiment'}.{own}"
        if setting in GONE and isinstance(value, GONE[setting].kind):
            del found[name]
            found |= {f"{group}{dot}{new}": value for new, value in _today(setting, value, place).items()}
            left_out.append(setting)
    _say(*left_out)
    return found


def without_gone_in_text(text: str, place: str) -> str:
    """Do the same with the text of a gin file, whose classes are then imported from where they are today."""
    text, left_out, end = _IMPORT.sub(lambda match: f"import {MOVED[match[1]]}", text), [], 0
    while match := _NAMED.search(text, end):
        setting, (value, end) = match[1], _value_at(text, match.end())
        if isinstance(value, GONE[setting].kind):
            kind = setting.partition(".")[0]
            today = "\n".join(f"{kind}.{name} = {each!r}" for name, each in _today(setting, value, place).items())
            text, end = text[: match.start()] + today + text[end:], match.start() + len(today)
            left_out.append(setting)
    _say(*left_out)
    return text


def _today(setting: str, value: Any, place: str) -> dict[str, Any]:
    gone = GONE[setting]
    if gone.without_effect and value not in gone.without_effect:
        raise ConfigError(f"{setting} = {short_repr(value)} in {place} is gone since {gone.since}: it {gone.did}")
    return gone.today(value)


def _value_at(text: str, begin: int) -> tuple[Any, int]:
    """Return the value at a position in a gin file, and where it ends: a literal, or else the rest of the line."""
    lines = text[begin:].splitlines(keepends=True) or [""]
    for count in range(len(lines)):
        literal = "".join(lines[: count + 1]).rstrip("\n")
        with contextlib.suppress(SyntaxError, ValueError):
            return ast.literal_eval(literal.strip()), begin + len(literal)
    return lines[0].strip(), begin + len(lines[0].rstrip("\n"))


@functools.cache
def _say(*settings: str) -> None:
    """Log once what is left out: a command may read a configuration several times."""
    if settings:
        _log.info("settings of an earlier version are left out or renamed: %s", ", ".join(settings))
