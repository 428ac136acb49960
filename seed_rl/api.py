"""Interface for programs and notebooks: build an experiment, train it, follow its metrics, and act with its policy.

    from seed_rl.api import Run, load_experiment, load_policy

    experiment = load_experiment(["catch/vtrace"], ["Experiment.total_frames = 100_000"])
    with Run(experiment, "runs/catch") as run:
        for row in run.train():
            print(row["env_frames"], row.get("episode_return"))
    policy = load_policy("runs/catch")

Experiments are frozen dataclasses, configured by gin files and bindings; `dataclasses.replace` makes changed copies.
"""

from __future__ import annotations

from seed_rl.system.native_output import load_tensorflow

load_tensorflow()

from seed_rl.agents.base import ActOutput, Agent, LossOutput, ModelAgent, VariableGroup  # noqa: E402
from seed_rl.agents.config import AgentConfig  # noqa: E402
from seed_rl.envs.base import CannotBuild, EnvConfig  # noqa: E402
from seed_rl.evaluation.episodes import Played, evaluate_run, play  # noqa: E402
from seed_rl.evaluation.film import film_run  # noqa: E402
from seed_rl.evaluation.policy import NoPolicy, Policy, load_policy  # noqa: E402
from seed_rl.experiment import (  # noqa: E402
    Actors,
    ConfigError,
    Devices,
    Experiment,
    Inference,
    Logs,
    Replay,
)
from seed_rl.experiment.config_files import load as load_experiment  # noqa: E402
from seed_rl.experiment.config_files import shipped_configs  # noqa: E402
from seed_rl.experiment.optimizer import Optimizer  # noqa: E402
from seed_rl.learner.checkpoints import CheckpointError  # noqa: E402
from seed_rl.learner.ending import Diverged  # noqa: E402
from seed_rl.learner.hosts import HostLost, Hosts, find_hosts  # noqa: E402
from seed_rl.reporting.metrics import read as read_metrics  # noqa: E402
from seed_rl.runs.fleet import ActorFailed  # noqa: E402
from seed_rl.runs.run import ELSEWHERE, PROCESSES, THREADS, Run  # noqa: E402
from seed_rl.runs.run_directory import CannotUse  # noqa: E402
from seed_rl.specs import CannotAct, EnvSpec  # noqa: E402
from seed_rl.system.object_store import CannotReach  # noqa: E402
from seed_rl.types import EnvOutput, Unroll  # noqa: E402

__all__ = [
    "ELSEWHERE",
    "PROCESSES",
    "THREADS",
    "ActOutput",
    "ActorFailed",
    "Actors",
    "Agent",
    "AgentConfig",
    "CannotAct",
    "CannotBuild",
    "CannotReach",
    "CannotUse",
    "CheckpointError",
    "ConfigError",
    "Devices",
    "Diverged",
    "EnvConfig",
    "EnvOutput",
    "EnvSpec",
    "Experiment",
    "HostLost",
    "Hosts",
    "Inference",
    "Logs",
    "LossOutput",
    "ModelAgent",
    "NoPolicy",
    "Optimizer",
    "Played",
    "Policy",
    "Replay",
    "Run",
    "Unroll",
    "VariableGroup",
    "evaluate_run",
    "film_run",
    "find_hosts",
    "load_experiment",
    "load_policy",
    "play",
    "read_metrics",
    "shipped_configs",
]
