"""What this library computes from the inputs of the original's functions, beside what those returned (README.md).

A function of `GROUPS` yields pairs of arrays, the first one computed by the library's own functions.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from seed_rl.agents.actor_critic.agent import Behaviour
from seed_rl.agents.r2d2 import R2D2
from seed_rl.agents.r2d2.agent import r2d2_loss, td_errors
from seed_rl.agents.vtrace import VTrace
from seed_rl.buffers.samplers import PrioritizedSampler
from seed_rl.experiment.optimizer import Optimizer
from seed_rl.learner.train_step import TrainStep
from seed_rl.networks.frame_stack import FrameState, stack_frames
from seed_rl.networks.trunk import TrunkState, unpack_planes
from seed_rl.rl.distributions import distribution_of
from seed_rl.rl.exploration import epsilon_ladder
from seed_rl.rl.n_step import n_step_returns
from seed_rl.rl.q_learning import sequence_priorities
from seed_rl.rl.value_rescaling import SIGNED_HYPERBOLIC
from seed_rl.rl.vtrace import vtrace
from seed_rl.specs import ArraySpec, ContinuousSpec, DiscreteSpec, EnvSpec, MultiDiscreteSpec
from seed_rl.types import EnvOutput, Unroll
from tests.golden.originals import (
    FOLDER,
    Layout,
    cases,
    frames,
    lowest_bit_first,
    lstm_state,
    named_cases,
    newest_last,
    older_frames,
    pack_planes,
    planes,
)
from tests.golden.quantities import EACH, QUANTITIES
from tests.networks.frame_stack_test import present_frames

BOUNDS = ContinuousSpec((-1.0,) * 3, (1.0,) * 3)
INITIAL_DEVIATION = np.log(2.0) + 1e-3
"""The original's, 0.694: softplus(0) + 0.001."""
PARTS = {"total": "loss", "policy": "loss_policy", "baseline": "loss_V", "entropy": "loss_entropy", "kl": "loss_kl"}
"""The parts of the loss, and their names in the original."""


class Measured(NamedTuple):
    arrays: int
    numbers: int
    difference: float
    """The largest relative difference."""


Pairs = Iterator[tuple[str, Any, Any]]
"""Name of a quantity, an array computed here, and the original's."""


def of_vtrace() -> Pairs:
    for case in cases("vtrace.npz"):
        clips = {name: None if np.isnan(case[name]) else float(case[name]) for name in ("clip_rho", "clip_pg_rho")}
        log_rhos = case["target_log_probs"] - case["behaviour_log_probs"]
        steps = (case[name] for name in ("discounts", "rewards", "values", "bootstrap_value"))
        returns = vtrace(log_rhos, *steps, lambda_=float(case["lambda_"]), **clips)
        yield "V-trace: targets", returns.vs, case["vs"]
        yield "V-trace: advantages, weighted", returns.pg_advantages, case["pg_advantages"]


def of_values() -> Pairs:
    (case,) = cases("r2d2.npz", "rescaling")
    far = np.abs(case["x"]) >= 1.0
    assert np.sum(far) == 500
    for name, function, key in (
        ("Value rescaling, from ±1 to ±1e6", SIGNED_HYPERBOLIC.apply, "h"),
        ("Its inverse, from ±1 to ±1e6", SIGNED_HYPERBOLIC.inverse, "h_inverse"),
    ):
        yield name, function(case["x"][far]), case[key][far]
    for case in cases("r2d2.npz", "n_step"):
        # rewards[t] and done[t] come with the state whose value is q_target[t].
        discount = case["discount"] * ~case["done"]
        nowhere = np.zeros_like(case["done"])
        returns = n_step_returns(case["rewards"], discount, case["q_target"], int(case["n"]), nowhere)
        yield "n-step targets", returns, case["target"]


def outcomes(case: dict[str, Any], observation: Any = ()) -> EnvOutput:
    """The environments' outputs; the original knows no `last`."""
    reward, done = (case["reward"] if "reward" in case else case["rewards"]), case["done"]
    return EnvOutput(tf.constant(reward), tf.constant(done), tf.zeros(done.shape, tf.bool), observation)


def of_sequences() -> Pairs:
    for case in cases("r2d2.npz", "loss"):
        config, env_output = R2D2(discount=float(case["discount"]), n_steps=int(case["n"])), outcomes(case)
        batch = case["loss"].size
        q, target_q, actions = (case[name] for name in ("q_online", "q_target", "actions"))
        loss = functools.partial(r2d2_loss, q, target_q, actions, env_output, config=config)
        # A weight of `batch` for one sequence and 0 for the others gives its loss.
        losses = [loss(importance_weights=weights).losses["model"] for weights in batch * tf.eye(batch)]
        yield "R2D2: losses of sequences", losses, case["loss"]
        yield "R2D2: priorities", loss(importance_weights=tf.ones([batch])).priorities, case["priorities"]
        best = tf.reduce_max(q, axis=-1)
        first = sequence_priorities(td_errors(best, best, env_output, config), env_output.last[:-1])
        yield "R2D2: first priorities of greedy sequences", first, case["first_priorities_greedy"]


def of_exploration_and_replay() -> Pairs:
    config = R2D2()
    (epsilons,) = cases("r2d2.npz", "epsilon")
    for counts, expected in epsilons.items():
        training, evaluation = map(int, counts.split("+"))
        ladder = epsilon_ladder(training, config.epsilon_base, config.epsilon_low, config.epsilon_high)
        yield "R2D2: exploration", [*ladder, *[config.eval_epsilon] * evaluation], expected
    for case in cases("r2d2.npz", "importance"):
        size, drawn = len(case["priorities"]), case["drawn"]
        sampler = PrioritizedSampler(500, 500, 0, 0.9, 0.6)
        sampler.insert(np.arange(size, dtype=np.int32), case["priorities"])
        # Points in the middle of the drawn slots' shares.
        shares = case["priorities"].astype(np.float64) ** 0.9
        points = ((np.cumsum(shares) - shares / 2) / np.sum(shares))[drawn]
        sampler.generator = SimpleNamespace(random=lambda count, points=points: points[:count])
        sample = sampler.sample(len(drawn))
        np.testing.assert_array_equal(sample.slots, drawn)
        yield "R2D2: importance weights", sample.weights, case["weights"]


def of_observations() -> Pairs:
    (case,) = cases("r2d2.npz", "frame_stack")
    before, after = (older_frames(case[f"packed_{when}"], 5, 6) for when in ("before", "after"))
    state = FrameState(tf.constant(before, tf.uint8), tf.fill([4], 3))
    stacks, state = stack_frames(case["frames"].astype(np.uint8), case["done"], state)
    yield "R2D2: frame stacks, and the state after them", stacks.frames, newest_last(case["stacked"], axis=-1)
    yield "R2D2: frame stacks, and the state after them", present_frames(state), after

    (case,) = cases("vtrace_networks.npz", "football")[:1]
    yield "Football: planes", unpack_planes(lowest_bit_first(case["packed_first_row"])), planes()[0, 0, 0]


def of_distributions() -> Pairs:
    for case in cases("distributions.npz", "categorical"):
        logits, others, count = case["logits"], case["other_logits"], case["logits"].shape[-1]
        own = distribution_of(DiscreteSpec(count))
        yield "Categorical: log-probabilities", own.log_prob(logits, case["actions"]), case["log_prob"]
        yield "Categorical: entropies", own.entropy(logits), case["entropy"]
        actions = np.arange(count).repeat(case["kl"].size).reshape(count, *case["kl"].shape)
        log_p, log_q = (own.log_prob(np.broadcast_to(x, [count, *x.shape]), actions) for x in (logits, others))
        kl = tf.reduce_sum(tf.exp(log_p) * (log_p - log_q), axis=0)
        yield "Categorical: KL divergences", kl, case["kl"]
    for case in cases("distributions.npz", "multi_categorical"):
        choices = case["actions"].shape[-1]
        several = distribution_of(MultiDiscreteSpec((case["logits"].shape[-1] // choices,) * choices))
        log_prob = several.log_prob(case["logits"], case["actions"])
        yield "Multi-categorical: log-probabilities", log_prob, case["log_prob"]
        yield "Multi-categorical: entropies", several.entropy(case["logits"]), case["entropy"]
    for case in cases("distributions.npz", "squashed_normal"):
        normal = distribution_of(BOUNDS, INITIAL_DEVIATION)
        yield "Squashed normal: log densities", normal.log_prob(case["parameters"], case["actions"]), case["log_prob"]


def of_adam() -> Pairs:
    for case in cases("adam.npz"):
        settings = Optimizer(beta_1=float(case["beta_1"]), epsilon=float(case["epsilon"]))
        variable = keras.Variable(np.zeros(200, np.float32))
        optimizer, values = settings.build([variable]), []
        for gradient, rate in zip(case["gradients"], case["rates"], strict=True):
            optimizer.learning_rate.assign(rate)
            optimizer.apply([tf.constant(gradient)], [variable])
            values.append(variable.numpy())
        yield "Adam: 50 steps", values, case["values"]


def vtrace_network(
    name: str, row: str, spec: EnvSpec, observation: np.ndarray, core_state: Any, **settings: Any
) -> Pairs:
    """A network of `vtrace_networks.npz` with the whole loss and its gradients, in each recorded variant."""
    recorded = named_cases("vtrace_networks.npz", name)
    case, variants = recorded.pop(name), json.loads((FOLDER / "vtrace_variants.json").read_text())
    length, batch = case["reward"].shape
    layout, env_output = Layout(case["weights"]), outcomes(case, tf.constant(observation))
    unroll = Unroll(
        initial_state=TrunkState((), core_state),
        prev_action=tf.constant(case["previous_action"], tf.int32),
        env_output=env_output,
        action=tf.constant(case["action"], tf.int32),
        behaviour=Behaviour(tf.constant(case["behaviour_logits"]), tf.zeros([length, batch])),
    )
    for path, expected in recorded.items():
        variant = variants[int(path.removeprefix(f"{name}/"))]
        agent = VTrace(
            torso="deep",
            unroll_length=length - 1,
            discount=variant["discounting"],
            **{key: variant[key] for key in ("max_abs_reward", "lambda_", "kl_cost", "entropy_cost", "baseline_cost")},
            **settings,
        ).build(spec, num_training_envs=2, seed=1)
        variables = agent.model.trainable_variables
        layout.assign(variables)
        if path == min(recorded):
            output, state = agent.model(unroll.prev_action, env_output, unroll.initial_state)
            yield f"{row}: logits", output.policy, case["policy_logits"]
            yield f"{row}: values", output.baseline, case["baseline"]
            for part, own in enumerate(tf.nest.flatten(state)):
                yield f"{row}: recurrent state", own, case[f"new_state_{part}"]
        with tf.GradientTape() as tape:
            metrics = agent.loss(unroll, tf.ones([batch])).metrics
        for own, theirs in PARTS.items():
            yield f"{row}: loss and its parts", metrics[f"loss/{own}"], expected[theirs]
        gradients = layout.gradients(tape, metrics["loss/total"], variables)
        for index, gradient in enumerate(gradients):
            where = "of" if layout.names[index].startswith("stage") else "after"
            begin = np.resize(gradient, 16) if gradient.size < 16 else gradient.reshape(-1)[:16]
            yield f"{row}: gradients {where} the convolutions", begin, expected["gradient_first16"][index]
            norm = np.linalg.norm(gradient)
            yield f"{row}: gradients {where} the convolutions", norm, expected["gradient_norms"][index]


def of_residual_network() -> Pairs:
    yield from vtrace_network(
        "dmlab",
        "Residual network with LSTM",
        EnvSpec(ArraySpec((72, 96, 3), "uint8"), DiscreteSpec(9)),
        frames(11, 2, 72, 96, 3),
        lstm_state(256, 0.5, 50),
        core="lstm",
        core_units=256,
        previous_step_inputs=True,
        frame_stack=1,
    )


def of_football_network() -> Pairs:
    yield from vtrace_network(
        "football",
        "Football network",
        EnvSpec(ArraySpec((72, 96), "uint16"), DiscreteSpec(19)),
        pack_planes(planes()),
        (),
        channels=(16, 32, 32, 32),
    )


def of_r2d2_network() -> Pairs:
    (case,) = cases("r2d2_network.npz")
    length, batch = case["reward"].shape
    spec = EnvSpec(ArraySpec((84, 84, 1), "uint8"), DiscreteSpec(18))
    agent = R2D2(burn_in=4, unroll_length=8).build(spec, num_training_envs=2, seed=1)
    layout, variables = Layout(case["weights"]), agent.model.trainable_variables
    layout.assign(variables)
    layout.assign(agent._target.model.trainable_variables, offset=100)

    before = older_frames(40503 * np.arange(2 * 7056).reshape(2, 7056) % 2**24, 84, 84)
    stack = FrameState(tf.constant(before, tf.uint8), tf.fill([batch], 3))
    unroll = Unroll(
        initial_state=TrunkState((stack,), lstm_state(512, 0.3, 60)),
        prev_action=tf.constant(case["previous_action"]),
        env_output=outcomes(case, tf.constant(frames(length, batch, 84, 84, 1))),
        action=tf.constant(case["action"]),
        behaviour=tf.nest.map_structure(lambda own: tf.zeros([length, batch, *own.shape]), agent.behaviour_spec),
    )
    q, state = agent.model(unroll.prev_action, unroll.env_output, unroll.initial_state)
    yield "R2D2's network: Q-values", q, case["q"]
    yield "R2D2's network: recurrent state", state.core.h, case["h"]
    yield "R2D2's network: recurrent state", state.core.c, case["c"]
    with tf.GradientTape() as tape:
        output = agent.loss(unroll, tf.constant(case["importance_weights"]))
    yield "R2D2's network: loss, priorities", output.losses["model"], case["total"]
    yield "R2D2's network: loss, priorities", output.priorities, case["priorities"]
    gradients = layout.gradients(tape, output.losses["model"], variables)
    yield "R2D2's network: norms of gradients", [np.linalg.norm(own) for own in gradients], case["gradient_norms"]

    train_step = TrainStep(agent, Optimizer(learning_rate=1e-4, epsilon=1e-3, clip_norm=float(case["clip"])))
    updates = [train_step(unroll, 0.0, case["importance_weights"]) for _ in case["totals_over_5_updates"]]
    losses = [update.metrics["loss/total"] for update in updates]
    yield "R2D2's network: losses of five updates", losses, case["totals_over_5_updates"]


GROUPS: dict[str, Callable[[], Pairs]] = {
    "vtrace": of_vtrace,
    "values": of_values,
    "sequences": of_sequences,
    "exploration_and_replay": of_exploration_and_replay,
    "observations": of_observations,
    "distributions": of_distributions,
    "adam": of_adam,
    "residual_network": of_residual_network,
    "football_network": of_football_network,
    "r2d2_network": of_r2d2_network,
}


def difference(ours: Any, original: Any, relative_to: str) -> float:
    """The largest relative difference of two arrays; infinite if they disagree about what is zero or finite."""
    ours, original = np.asarray(ours, np.float64), np.asarray(original, np.float64)
    assert ours.shape == original.shape, (ours.shape, original.shape)
    scale = np.abs(original) if relative_to == EACH else np.max(np.abs(original))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(ours == original, 0.0, np.abs(ours - original) / scale)
    return float(np.max(np.nan_to_num(ratios, nan=np.inf, posinf=np.inf)))


def measure(group: str) -> dict[str, Measured]:
    """The differences of the quantities in a group, by name."""
    found: dict[str, Measured] = {}
    for name, ours, original in GROUPS[group]():
        before = found.get(name, Measured(0, 0, 0.0))
        largest = max(before.difference, difference(ours, original, QUANTITIES[name].relative_to))
        found[name] = Measured(before.arrays + 1, before.numbers + np.size(original), largest)
    return found
