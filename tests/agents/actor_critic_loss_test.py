"""The losses of V-trace and PPO against their formulas written out in numpy, given what `tests/rl` covers."""

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.actor_critic.agent import Behaviour
from seed_rl.agents.actor_critic.terms import NetworkOutput, add_up, decisions_of
from seed_rl.agents.ppo import PPO
from seed_rl.agents.ppo.agent import ppo_targets, ppo_terms
from seed_rl.agents.vtrace import VTrace
from seed_rl.agents.vtrace.agent import vtrace_terms
from seed_rl.rl import losses
from seed_rl.rl.distributions import distribution_of
from seed_rl.rl.vtrace import VTraceReturns, vtrace
from seed_rl.specs import DiscreteSpec
from seed_rl.types import EnvOutput, Unroll

ACTIONS = distribution_of(DiscreteSpec(5))
"""`distributions_test` covers the distributions of all kinds."""
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


def random_unroll(length, batch, seed=0):
    """T + 1 steps of B environments, arrays by name; of the episodes, some end in a last state."""
    rng = np.random.default_rng([length, batch, seed])
    policies = rng.standard_normal((2, length + 1, batch, 5))
    done = rng.random((length + 1, batch)) < 0.4
    return {
        "target_policy": policies[0],
        "behaviour_policy": policies[1],
        "baseline": rng.standard_normal((length + 1, batch)),
        "action": rng.integers(0, 5, (length + 1, batch)),
        "reward": rng.standard_normal((length + 1, batch)),
        "done": done,
        "last": np.roll(done, -1, axis=0) & (rng.random(done.shape) < 0.5),
    }


def decisions(unroll, value_unit, config):
    """The decisions in an unroll of numpy arrays or tensors by name."""
    tensors = {name: tf.cast(unroll[name], tf.float32) for name in (*POLICY_AND_VALUES, "behaviour_policy", "reward")}
    steps = Unroll(
        initial_state=(),
        prev_action=(),
        env_output=EnvOutput(tensors["reward"], unroll["done"], unroll["last"], ()),
        action=tf.constant(unroll["action"], tf.int32),
        behaviour=Behaviour(tensors["behaviour_policy"], ()),
    )
    outputs = NetworkOutput(*(tensors[name] for name in POLICY_AND_VALUES))
    return decisions_of(ACTIONS, outputs, steps, value_unit, config)


def loss_of(unroll, value_unit=1.0, **settings):
    config = VTrace(**(SETTINGS | settings))
    made = decisions(unroll, value_unit, config)
    return add_up(vtrace_terms(made, config), made, config.entropy_cost, config)


def ppo_loss_of(unroll, before, **settings):
    """The loss, and the targets by the outputs in the unroll `before`."""
    shared = {name: SETTINGS[name] for name in SETTINGS if name not in ("clip_rho", "clip_pg_rho", "kl_cost")}
    config = PPO(**(shared | {"advantage_norm": False} | settings))
    made, made_before = (decisions(each, 1.0, config) for each in (unroll, before))
    targets = ppo_targets(made_before, config)
    return add_up(ppo_terms(made, targets, config), made, config.entropy_cost, config), targets


def log_prob(unroll, name):
    """log pi(a_t) at steps 0 .. T - 1."""
    return ACTIONS.log_prob(unroll[f"{name}_policy"][:-1], unroll["action"][:-1]).numpy()


def log_ratios(unroll):
    """log pi(a_t) - log mu(a_t)."""
    return log_prob(unroll, "target") - log_prob(unroll, "behaviour")


def returns_of(unroll, log_rhos, *, discount, lambda_, clip_rho, clip_pg_rho, reward_scale, max_abs_reward, **_):
    """V-trace's targets and advantages of steps 0 .. T - 1: `vtrace_test` has their formulas.

    Action a_t leads to the reward of step t + 1, and to the end of the episode if step t + 1 is done.
    """
    bound, value = max_abs_reward or np.inf, unroll["baseline"]
    rewards, discounts = np.clip(reward_scale * unroll["reward"], -bound, bound), discount * ~unroll["done"]
    clips = {"clip_rho": clip_rho or None, "clip_pg_rho": clip_pg_rho or None}
    steps = (discounts[1:], rewards[1:], value[:-1], value[-1])
    returns = vtrace(log_rhos, *steps, last_t=unroll["last"][:-1], lambda_=lambda_, **clips)
    return VTraceReturns(*(own.numpy() for own in returns))


def reference(unroll, **settings):
    """The parts of the loss and the metrics by name."""
    settings = SETTINGS | settings
    log_pi, log_mu = log_prob(unroll, "target"), log_prob(unroll, "behaviour")
    entropies = ACTIONS.entropy(unroll["target_policy"][:-1]).numpy()
    ratio, values, acted = np.exp(log_pi - log_mu), unroll["baseline"][:-1], ~unroll["last"][:-1]
    vs, _, advantages = returns_of(unroll, log_pi - log_mu, **settings)
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
        "learning/clipped_mass": np.mean(acted * (1.0 - np.minimum(ratio, 1.0))),
        "learning/entropy_share": np.mean(entropies[acted]) / np.log(5),
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


@pytest.mark.parametrize(("length", "settings"), [(1, {}), (4, {}), (4, WITHOUT_BOUNDS)])
def test_total_and_parts_are_those_of_the_formulas(length, settings):
    unroll = random_unroll(length, 3)
    metrics, expected = loss_of(unroll, **settings), reference(unroll, **settings)
    assert metrics.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(metrics[name], value, rtol=2e-5, atol=1e-6, err_msg=name)


def test_each_part_moves_the_output_that_it_is_about_by_the_gradient_of_its_formula():
    unroll = random_unroll(4, 3)
    tensors = {name: tf.constant(unroll[name], tf.float32) for name in POLICY_AND_VALUES}
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(tensors)
        metrics = loss_of(unroll | tensors)
    log_rhos, acted = log_ratios(unroll), ~unroll["last"][:-1]
    for clip in (1.0, SETTINGS["clip_rho"], SETTINGS["clip_pg_rho"]):
        assert 0 < np.sum(np.exp(log_rhos) > clip) < 12, "both sides of every threshold are reached"
    assert 0 < np.sum(np.abs(unroll["reward"][1:]) > SETTINGS["max_abs_reward"]) < 12
    assert 0 < np.sum(unroll["last"][1:-2]) < np.sum(unroll["done"][2:-1]) < 6, "episodes end in mid-sequence"
    vs, _, advantages = returns_of(unroll, log_rhos, **SETTINGS)
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


def test_advantages_may_be_weighed_by_a_clipped_ratio_standardised_or_measured_in_a_unit():
    unroll = random_unroll(4, 3) | {"last": np.zeros((5, 3), bool)}
    log_rhos, log_pi = log_ratios(unroll), log_prob(unroll, "target")
    _, unweighted, advantages = returns_of(unroll, log_rhos, **SETTINGS)
    standardised = (advantages - advantages.mean()) / advantages.std()
    for settings, expected in (
        ({"clip_ratio": 0.3}, losses.clipped_ratio_loss(log_rhos, unweighted, 0.3)),
        ({"advantage_norm": True}, -np.mean(standardised * log_pi)),
        ({"value_unit": 4.0}, -np.mean(advantages / 4 * log_pi)),
    ):
        metrics = loss_of(unroll, **settings)
        np.testing.assert_allclose(metrics["loss/policy"], expected, rtol=2e-5, err_msg=str(settings))
    np.testing.assert_allclose(metrics["loss/baseline"], reference(unroll)["loss/baseline"] / 16, rtol=2e-5)


def test_ppo_learns_from_what_the_weights_before_the_first_pass_give():
    """Advantages are those of GAE (arXiv:1506.02438), the lambda-returns less the values."""
    unroll, other = random_unroll(4, 3), random_unroll(4, 3, seed=1)
    before = unroll | {name: other[name] for name in POLICY_AND_VALUES}
    acted, values, old_values = ~unroll["last"][:-1], unroll["baseline"][:-1], before["baseline"][:-1]
    returns = returns_of(before, np.zeros((4, 3)), **SETTINGS).vs
    advantages = returns - old_values
    assert 0 < np.sum(log_ratios(before) < np.log(0.5)) < 12, "some probabilities of the acting policy count less"
    log_rhos = log_ratios(unroll) - np.maximum(log_ratios(before), np.log(0.5))  # to mu, which cancels out
    metrics, found = ppo_loss_of(unroll, before, clip_ratio=0.3)
    surrogate = losses.clipped_ratio_loss(log_rhos, advantages, 0.3)
    np.testing.assert_allclose(metrics["loss/policy"], surrogate, rtol=2e-5)
    outside = acted * (np.abs(np.exp(log_rhos) - 1) > 0.3)
    assert 0 < outside.sum() < outside.size
    np.testing.assert_allclose(metrics["policy/clip_fraction"], outside.mean(), rtol=1e-6)
    np.testing.assert_allclose(found.advantages, advantages, rtol=2e-5, atol=1e-6)
    half, squares = SETTINGS["baseline_cost"] / 2, acted * (returns - values) ** 2
    np.testing.assert_allclose(metrics["loss/baseline"], half * np.mean(squares), rtol=2e-5)
    np.testing.assert_allclose(metrics["loss/entropy"], reference(unroll)["loss/entropy"], rtol=2e-5)
    parts = [float(metrics[f"loss/{name}"]) for name in ("policy", "baseline", "entropy")]
    assert float(metrics["loss/total"]) == pytest.approx(sum(parts))
    assert metrics.keys() | {"policy/entropy_cost"} == {"loss/total"} | {metric.name for metric in PPO.metrics}
