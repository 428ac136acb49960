"""The losses of V-trace and PPO against their formulas written out in numpy. `losses_test` has some gradients."""

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.actor_critic.agent import Behaviour
from seed_rl.agents.actor_critic.terms import NetworkOutput, add_up, decisions_of
from seed_rl.agents.ppo import PPO
from seed_rl.agents.ppo.agent import ppo_targets, ppo_terms
from seed_rl.agents.vtrace import VTrace
from seed_rl.agents.vtrace.agent import vtrace_terms
from seed_rl.rl.distributions import distribution_of
from seed_rl.specs import DiscreteSpec, MultiDiscreteSpec, choices_of
from seed_rl.types import EnvOutput, Unroll

KINDS = {"discrete": DiscreteSpec(5), "multi-discrete": MultiDiscreteSpec((2, 4))}
"""Action spaces. `distributions_test` covers the distributions of all kinds."""
SETTINGS = {
    "entropy_cost": 0.03,
    "discount": 0.9,
    "lambda_": 0.8,
    "clip_rho": 1.6,
    "clip_pg_rho": 0.7,
    "reward_scale": 1.4,
    "max_abs_reward": 0.9,
    "baseline_cost": 0.35,
    "kl_cost": 0.2,
}
WITHOUT_BOUNDS = {"clip_rho": 0.0, "clip_pg_rho": 0.0, "max_abs_reward": 0.0}
POLICY_AND_VALUES = ("target_policy", "baseline")


def random_unroll(length, batch, seed=0, kind="discrete"):
    """T + 1 steps of B environments, arrays by name; of the episodes, some end in a last state."""
    rng, spec = np.random.default_rng([length, batch, seed]), KINDS[kind]
    policies = rng.standard_normal((2, length + 1, batch, sum(choices_of(spec))))
    done = rng.random((length + 1, batch)) < 0.4
    return {
        "target_policy": policies[0],
        "behaviour_policy": policies[1],
        "baseline": rng.standard_normal((length + 1, batch)),
        "action": rng.integers(0, spec.n, (length + 1, batch, *spec.tensor.shape)),
        "reward": rng.standard_normal((length + 1, batch)),
        "done": done,
        "last": np.roll(done, -1, axis=0) & (rng.random(done.shape) < 0.5),
    }


def arguments(unroll, kind):
    """Distribution, output of the network and unroll, from numpy arrays or tensors by name."""
    tensors = {name: tf.cast(unroll[name], tf.float32) for name in (*POLICY_AND_VALUES, "behaviour_policy", "reward")}
    steps = Unroll(
        initial_state=(),
        prev_action=(),
        env_output=EnvOutput(tensors["reward"], unroll["done"], unroll["last"], ()),
        action=tf.constant(unroll["action"], KINDS[kind].tensor.dtype),
        behaviour=Behaviour(tensors["behaviour_policy"], ()),
    )
    return distribution_of(KINDS[kind]), NetworkOutput(*(tensors[name] for name in POLICY_AND_VALUES)), steps


def loss_of(unroll, kind="discrete", value_unit=1.0, **settings):
    config = VTrace(**(SETTINGS | settings))
    made = decisions_of(*arguments(unroll, kind), value_unit, config)
    return add_up(vtrace_terms(made, config), made, config.entropy_cost, config)


def ppo_loss_of(unroll, before, **settings):
    """The loss, and the targets by the outputs in the unroll `before`."""
    shared = {name: SETTINGS[name] for name in SETTINGS if name not in ("clip_rho", "clip_pg_rho", "kl_cost")}
    config = PPO(**(shared | {"advantage_norm": False} | settings))
    made, made_before = (decisions_of(*arguments(each, "discrete"), 1.0, config) for each in (unroll, before))
    targets = ppo_targets(made_before, config)
    return add_up(ppo_terms(made, targets, config), made, config.entropy_cost, config), targets


def log_probs_and_entropies(unroll, name, kind="discrete"):
    """log pi(a_t) and the entropy at steps 0 .. T - 1: float64, from the definitions, summed over choices."""
    parameters, log_probs, entropies = unroll[name][:-1], 0.0, 0.0
    actions = unroll["action"][:-1].reshape(*parameters.shape[:-1], -1)
    for index, logits in enumerate(np.split(parameters, np.cumsum(choices_of(KINDS[kind]))[:-1], axis=-1)):
        pi = np.exp(logits) / np.sum(np.exp(logits), axis=-1, keepdims=True)
        log_probs += np.log(np.take_along_axis(pi, actions[..., index : index + 1], axis=-1)[..., 0])
        entropies -= np.sum(pi * np.log(pi), axis=-1)
    return log_probs, entropies


def ratios(unroll, kind="discrete"):
    """pi(a_t) / mu(a_t)."""
    log_pi, log_mu = (log_probs_and_entropies(unroll, f"{name}_policy", kind)[0] for name in ("target", "behaviour"))
    return np.exp(log_pi - log_mu)


def targets(unroll, ratio, *, discount, lambda_, clip_rho, clip_pg_rho, reward_scale, max_abs_reward, **_):
    """v_s and the weighted advantages of steps 0 .. T - 1, one step at a time: float64 [2, T, B]."""
    bound = max_abs_reward or np.inf
    rewards, value = np.clip(reward_scale * unroll["reward"], -bound, bound), unroll["baseline"]
    acc, vs_tp1, found = 0.0, value[-1], []
    for t in reversed(range(len(ratio))):
        # Action a_t leads to the reward of step t + 1, and to the end of the episode if step t + 1 is done.
        reward, gamma, last = rewards[t + 1], discount * ~unroll["done"][t + 1], unroll["last"][t]
        delta = np.minimum(clip_rho or np.inf, ratio[t]) * (reward + gamma * value[t + 1] - value[t])
        acc = np.where(last, 0, delta + gamma * lambda_ * np.minimum(1.0, ratio[t]) * acc)
        advantage = np.where(last, 0, reward + gamma * vs_tp1 - value[t])
        vs_tp1 = value[t] + acc
        found.insert(0, (vs_tp1, np.minimum(clip_pg_rho or np.inf, ratio[t]) * advantage))
    return np.moveaxis(found, 1, 0)


def reference(unroll, kind="discrete", **settings):
    """The parts of the loss and the metrics by name, float64."""
    settings = SETTINGS | settings
    log_pi, entropies = log_probs_and_entropies(unroll, "target_policy", kind)
    log_mu, _ = log_probs_and_entropies(unroll, "behaviour_policy", kind)
    ratio, values, acted = np.exp(log_pi - log_mu), unroll["baseline"][:-1], ~unroll["last"][:-1]
    vs, advantages = targets(unroll, ratio, **settings)
    parts = {
        "loss/policy": -np.mean(log_pi * advantages),
        "loss/baseline": settings["baseline_cost"] * 0.5 * np.mean((vs - values) ** 2),
        "loss/entropy": -settings["entropy_cost"] * np.mean(acted * entropies),
        "loss/kl": settings["kl_cost"] * np.mean(acted * (log_mu - log_pi)),
    }
    result = {
        **parts,
        "loss/total": sum(parts.values()),
        "learning/explained_variance": max(-1.0, 1.0 - np.var((vs - values)[acted]) / np.var(vs[acted])),
        "learning/clipped_share": np.mean(acted * (ratio > (settings["clip_rho"] or np.inf))),
        "learning/clipped_mass": np.mean(acted * (1.0 - np.minimum(ratio, settings["clip_rho"] or np.inf))),
        "learning/entropy_share": np.mean(entropies[acted]) / np.sum(np.log(choices_of(KINDS[kind]))),
        "policy/entropy": np.mean(acted * entropies),
        "policy/kl_behaviour_target": np.mean(acted * (ratio - 1.0 - np.log(ratio))),
        "policy/mean_abs_advantage": np.mean(np.abs(advantages)),
        "policy/mean_abs_scaled_advantage": np.mean(np.abs(advantages)),
        "policy/mean_value": np.mean(values),
        "policy/value_unit": 1.0,
    }
    if bound := settings["max_abs_reward"]:
        result["learning/value_to_bound"] = np.mean(np.abs(values)) * (1 - settings["discount"]) / bound
    return result


@pytest.mark.parametrize("kind", KINDS)
def test_the_random_unrolls_reach_both_sides_of_every_threshold(kind):
    unroll = random_unroll(4, 3, kind=kind)
    for clip in (1.0, SETTINGS["clip_rho"], SETTINGS["clip_pg_rho"]):
        assert 0 < np.sum(ratios(unroll, kind) > clip) < 12
    assert 0 < np.sum(np.abs(unroll["reward"][1:]) > SETTINGS["max_abs_reward"]) < 12
    assert 0 < np.sum(unroll["last"][1:-2]) < np.sum(unroll["done"][2:-1]) < 6, "episodes end in mid-sequence"


@pytest.mark.parametrize(
    ("length", "batch", "kind", "settings"),
    [(1, 3, "discrete", {}), (4, 3, "multi-discrete", {}), (4, 3, "discrete", WITHOUT_BOUNDS)],
)
def test_total_and_parts_are_those_of_the_formulas(length, batch, kind, settings):
    unroll = random_unroll(length, batch, kind=kind)
    metrics = loss_of(unroll, kind, **settings)
    expected = reference(unroll, kind, **settings)
    assert metrics.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(metrics[name], value, rtol=2e-5, atol=1e-6, err_msg=name)


def test_each_part_moves_the_output_that_it_is_about_by_the_gradient_of_its_formula():
    unroll = random_unroll(4, 3)
    tensors = {name: tf.constant(unroll[name], tf.float32) for name in POLICY_AND_VALUES}
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(tensors)
        metrics = loss_of(unroll | tensors)
    ratio, acted = ratios(unroll), ~unroll["last"][:-1]
    vs, advantages = targets(unroll, ratio, **SETTINGS)
    policy = np.exp(unroll["target_policy"][:-1])
    by_log_pi = np.eye(5)[unroll["action"][:-1]] - policy / policy.sum(axis=-1, keepdims=True)
    slopes = {
        "loss/policy": ("target_policy", -advantages[..., None] * by_log_pi),
        "loss/kl": ("target_policy", -SETTINGS["kl_cost"] * acted[..., None] * by_log_pi),
        "loss/baseline": ("baseline", SETTINGS["baseline_cost"] * (unroll["baseline"][:-1] - vs)),
    }
    for part, (name, slope) in slopes.items():
        gradients = tape.gradient(metrics[part], tensors)
        assert [name for name in gradients if gradients[name] is not None] == [name]
        np.testing.assert_allclose(gradients[name][:-1], slope / 12, rtol=1e-4, atol=1e-6, err_msg=part)


def test_a_clipped_ratio_weighs_the_advantage_once():
    """Its policy loss is PPO's surrogate of advantages without V-trace's importance weight."""
    unroll = random_unroll(4, 3)
    ratio = ratios(unroll)
    _, unclipped = targets(unroll, ratio, **SETTINGS | {"clip_pg_rho": 0.0})
    surrogate = np.minimum(unclipped, np.clip(ratio, 0.7, 1.3) * unclipped / ratio)
    metrics = loss_of(unroll, clip_ratio=0.3)
    np.testing.assert_allclose(metrics["loss/policy"], -np.mean(surrogate), rtol=2e-5)


def test_advantages_can_be_standardised_and_values_measured_in_a_unit():
    unroll = random_unroll(4, 3) | {"last": np.zeros((5, 3), bool)}
    _, advantages = targets(unroll, ratios(unroll), **SETTINGS)
    log_pi, _ = log_probs_and_entropies(unroll, "target_policy")
    standardised = (advantages - advantages.mean()) / advantages.std()
    for settings, expected in (({"advantage_norm": True}, standardised), ({"value_unit": 4.0}, advantages / 4)):
        metrics = loss_of(unroll, **settings)
        np.testing.assert_allclose(metrics["loss/policy"], -np.mean(expected * log_pi), rtol=2e-5)
    np.testing.assert_allclose(metrics["loss/baseline"], reference(unroll)["loss/baseline"] / 16, rtol=2e-5)


def test_ppo_learns_from_what_the_weights_before_the_first_pass_give():
    """Advantages are those of GAE (arXiv:1506.02438), the lambda-returns less the values."""
    unroll, other = random_unroll(4, 3), random_unroll(4, 3, seed=1)
    before = unroll | {name: other[name] for name in POLICY_AND_VALUES}
    acted, values, old_values = ~unroll["last"][:-1], unroll["baseline"][:-1], before["baseline"][:-1]
    returns, _ = targets(before, np.ones((4, 3)), **SETTINGS)
    advantages = returns - old_values
    assert 0 < np.sum(ratios(before) < 0.5) < 12, "some probabilities of the acting policy count less"
    ratio = ratios(unroll) / np.maximum(ratios(before), 0.5)  # to mu, which cancels out
    surrogate = np.minimum(ratio * advantages, np.clip(ratio, 0.7, 1.3) * advantages)
    metrics, found = ppo_loss_of(unroll, before, clip_ratio=0.3)
    np.testing.assert_allclose(metrics["loss/policy"], -np.mean(surrogate), rtol=2e-5)
    outside = acted * (np.abs(ratio - 1) > 0.3)
    assert 0 < outside.sum() < outside.size
    np.testing.assert_allclose(metrics["policy/clip_fraction"], outside.mean(), rtol=1e-6)
    np.testing.assert_allclose(found.advantages, advantages, rtol=2e-5, atol=1e-6)
    half, squares = SETTINGS["baseline_cost"] / 2, acted * (returns - values) ** 2
    np.testing.assert_allclose(metrics["loss/baseline"], half * np.mean(squares), rtol=2e-5)
    _, entropies = log_probs_and_entropies(unroll, "target_policy")
    np.testing.assert_allclose(
        metrics["loss/entropy"], -SETTINGS["entropy_cost"] * np.mean(acted * entropies), rtol=2e-5
    )
    parts = [float(metrics[f"loss/{name}"]) for name in ("policy", "baseline", "entropy")]
    assert float(metrics["loss/total"]) == pytest.approx(sum(parts))
    assert metrics.keys() | {"policy/entropy_cost"} == {"loss/total"} | {metric.name for metric in PPO.metrics}
