"""The public interface: for programs and notebooks, and for your own suites, agents and networks and their tests.

A name is imported on first use, so that suites work in actors, without TensorFlow.
"""

import ast
import importlib
import inspect
import sys
from typing import TYPE_CHECKING, Any

from seed_rl.system.native_output import load_tensorflow

if TYPE_CHECKING:  # the same imports happen below, one at a time
    from seed_rl.agents.base import ActOutput, Agent, LossOutput, ModelAgent, VariableGroup, create_weights
    from seed_rl.agents.config import AgentConfig, TargetConfig
    from seed_rl.agents.transitions import transitions_of
    from seed_rl.envs.base import CannotBuild, EnvConfig, EnvironmentFailed, UniformVectorEnv, Watchable
    from seed_rl.envs.conformance import check_suite
    from seed_rl.envs.registry import register as register_suite
    from seed_rl.envs.vector.wrappers import FlatVectorEnv
    from seed_rl.errors import Failure, UsageError
    from seed_rl.evaluation.episodes import Evaluation, Played, evaluate_run, play
    from seed_rl.evaluation.policy import NoPolicy, Policy, load_policy
    from seed_rl.experiment import Actors, ConfigError, Devices, Experiment, Inference, Logs, Replay
    from seed_rl.experiment.config_files import load as load_experiment
    from seed_rl.experiment.config_files import shipped_configs
    from seed_rl.experiment.optimizer import Optimizer
    from seed_rl.networks.config import TrunkConfig
    from seed_rl.networks.frame_stack import stack_frames
    from seed_rl.networks.normalisation import RunningMoments
    from seed_rl.networks.recurrent import ResetGRU, ResetLSTM
    from seed_rl.networks.target import TargetNetwork
    from seed_rl.networks.torsos import FrameConv
    from seed_rl.networks.trunk import Trunk, TrunkModel
    from seed_rl.reporting.learning import Diverged
    from seed_rl.reporting.metrics import read as read_metrics
    from seed_rl.rl.distributions import ActionDistribution, distribution_of
    from seed_rl.rl.masks import mask_illegal
    from seed_rl.rl.vtrace import lambda_returns, vtrace
    from seed_rl.runs.fleet import ELSEWHERE, PROCESSES, THREADS, ActorFailed
    from seed_rl.runs.run import Run
    from seed_rl.runs.run_directory import CannotUse
    from seed_rl.settings import Count, NonNegative, OneOf, Place, Settings, UnitInterval, Within
    from seed_rl.specs import ArraySpec, CannotAct, ContinuousSpec, DiscreteSpec, EnvSpec, MixedSpec, MultiDiscreteSpec
    from seed_rl.transport.address import AddressError
    from seed_rl.transport.client import Disconnected, Rejected, RunOver
    from seed_rl.transport.credentials import SecurityError, ServerSecurity
    from seed_rl.types import EnvOutput, Unroll
    from seed_rl.weights.checkpoints import CheckpointError
    from seed_rl.weights.policy_sources import opening as open_run

__all__ = [
    "ELSEWHERE", "PROCESSES", "THREADS", "ActOutput", "ActionDistribution", "ActorFailed", "Actors", "AddressError",
    "Agent", "AgentConfig", "ArraySpec", "CannotAct", "CannotBuild", "CannotUse", "CheckpointError",
    "ConfigError", "ContinuousSpec", "Count", "Devices", "Disconnected", "DiscreteSpec", "Diverged", "EnvConfig",
    "EnvOutput", "EnvSpec", "EnvironmentFailed", "Evaluation", "Experiment", "Failure", "FlatVectorEnv", "FrameConv",
    "Inference", "Logs", "LossOutput", "MixedSpec", "ModelAgent", "MultiDiscreteSpec",
    "NoPolicy", "NonNegative", "OneOf", "Optimizer", "Place", "Played", "Policy", "Rejected",
    "Replay", "ResetGRU", "ResetLSTM", "Run", "RunOver", "RunningMoments",
    "SecurityError", "ServerSecurity", "Settings", "TargetConfig", "TargetNetwork", "Trunk", "TrunkConfig",
    "TrunkModel", "UniformVectorEnv", "UnitInterval", "Unroll", "UsageError", "VariableGroup", "Watchable", "Within",
    "check_suite", "create_weights", "distribution_of", "evaluate_run", "lambda_returns",
    "load_experiment", "load_policy", "mask_illegal", "open_run", "play", "read_metrics",
    "register_suite", "shipped_configs", "stack_frames", "transitions_of", "vtrace",
]  # fmt: skip
__dir__ = __all__.copy
_HOMES = {
    alias.asname or alias.name: (node.module, alias.name)
    for node in ast.walk(ast.parse(inspect.getsource(sys.modules[__name__])))
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}
_WITH_TENSORFLOW = ("agents.base", "agents.transitions", "evaluation", "networks.", "rl.")

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, original = _HOMES[name]
        if module.removeprefix("seed_rl.").startswith(_WITH_TENSORFLOW) and not module.endswith(".config"):
            load_tensorflow()  # silently
        globals()[name] = value = getattr(importlib.import_module(module), original)
        return value
