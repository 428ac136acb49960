"""The losses of V-trace and PPO against their formulas written out in numpy, value and gradient."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.actor_critic.networks import NetworkOutput
from seed_rl.agents.ppo import PPO
from seed_rl.agents.ppo.loss import ppo_loss, ppo_targets
from seed_rl.agents.vtrace.config import VTrace
from seed_rl.agents.vtrace.loss import vtrace_loss
from seed_rl.rl.distributions import distribution_of
from seed_rl.specs import DiscreteSpec, MultiDiscreteSpec
from seed_rl.types import EnvOutput, Unroll
from tests.support.gradients import finite_differences

KINDS = {"discrete": DiscreteSpec(5), "multi-discrete": MultiDiscreteSpec((2, 4))}
"""Action spaces. `distributions_test` covers the distributions of all kinds."""
NUM_PARAMETERS = {"discrete": 5, "multi-discrete": 6}
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
POLICY_AND_VALUES = ("target_policy", "baseline")
CONSTANTS = ("behaviour_policy", "reward")


def random_unroll(length, batch, seed=0, kind="discrete"):
    """T + 1 steps of B environments, arrays by name."""
    rng, spec = np.random.default_rng([length, batch, seed]), KINDS[kind]
    return {
        "target_policy": rng.standard_normal((length + 1, batch, NUM_PARAMETERS[kind])),
        "baseline": rng.standard_normal((length + 1, batch)),
        "behaviour_policy": rng.standard_normal((length + 1, batch, NUM_PARAMETERS[kind])),
        "action": rng.integers(0, spec.n, (length + 1, batch, *spec.tensor.shape)),
        "reward": rng.standard_normal((length + 1, batch)),
        "done": rng.random((length + 1, batch)) < 0.3,
    }


def arguments(unroll, kind):
    """Distribution, output of the network and unroll, from numpy arrays or tensors by name."""
    tensors = {name: tf.cast(unroll[name], tf.float32) for name in (*POLICY_AND_VALUES, *CONSTANTS)}
    done = tf.constant(unroll["done"])
    steps = Unroll(
        initial_state=(),
        prev_action=(),
        env_output=EnvOutput(tensors["reward"], done, tf.zeros_like(done), ()),
        action=tf.constant(unroll["action"], KINDS[kind].tensor.dtype),
        behaviour=NetworkOutput(tensors["behaviour_policy"], ()),
    )
    return distribution_of(KINDS[kind]), NetworkOutput(*(tensors[name] for name in POLICY_AND_VALUES)), steps


def loss_of(unroll, kind="discrete", value_unit=1.0, **settings):
    config = VTrace(**(SETTINGS | settings))
    return vtrace_loss(*arguments(unroll, kind), config.entropy_cost, value_unit, config)


def ppo_loss_of(unroll, before, **settings):
    """The loss, and the targets by the outputs in the unroll `before`."""
    shared = {name: SETTINGS[name] for name in SETTINGS if name not in ("clip_rho", "clip_pg_rho", "kl_cost")}
    config = PPO(**(shared | {"advantage_norm": False} | settings))
    actions, output, steps = arguments(unroll, "discrete")
    targets = ppo_targets(*arguments(before, "discrete"), config)
    return ppo_loss(actions, output, steps._replace(targets=targets), config.entropy_cost, 1.0, config), targets


def choice(logits, action):
    """log pi(action) and the entropy of one choice."""
    pi = np.exp(logits - logits.max())
    pi /= pi.sum()
    return np.log(pi[action]), -np.sum(pi * np.log(pi))


def policy(parameters, action, kind):
    """log pi(action) and the entropy of one distribution: float64, from the definitions."""
    if kind == "discrete":
        return choice(parameters, action)
    logits = np.split(parameters, np.cumsum(KINDS[kind].n)[:-1])
    parts = [choice(own, value) for own, value in zip(logits, action, strict=True)]
    log_probs, entropies = zip(*parts, strict=True)
    return sum(log_probs), sum(entropies)


def ratios(unroll, kind="discrete"):
    """pi(a_t) / mu(a_t) of steps 0 .. T - 1."""
    length, batch = unroll["reward"][1:].shape
    ratio = np.zeros((length, batch))
    for t, b in np.ndindex(length, batch):
        log_pi, _ = policy(unroll["target_policy"][t, b], unroll["action"][t, b], kind)
        log_mu, _ = policy(unroll["behaviour_policy"][t, b], unroll["action"][t, b], kind)
        ratio[t, b] = np.exp(log_pi - log_mu)
    return ratio


def targets(unroll, kind="discrete", *, discount, lambda_, clip_rho, clip_pg_rho, reward_scale, max_abs_reward, **_):
    """v_s and the advantages of steps 0 .. T - 1: one environment and one step at a time, float64."""
    length, batch = unroll["reward"][1:].shape
    clip_rho, clip_pg_rho = clip_rho or np.inf, clip_pg_rho or np.inf
    value, ratio = unroll["baseline"], ratios(unroll, kind)
    vs, advantages = np.zeros((length, batch)), np.zeros((length, batch))
    for b in range(batch):
        acc, vs_tp1 = 0.0, value[length, b]
        for t in reversed(range(length)):
            # Action a_t leads to the reward of step t + 1, and to the end of the episode if step t + 1 is done.
            r = reward_scale * unroll["reward"][t + 1, b]
            if max_abs_reward:
                r = min(max(r, -max_abs_reward), max_abs_reward)
            gamma = 0.0 if unroll["done"][t + 1, b] else discount
            delta = min(clip_rho, ratio[t, b]) * (r + gamma * value[t + 1, b] - value[t, b])
            acc = delta + gamma * lambda_ * min(1.0, ratio[t, b]) * acc
            advantages[t, b] = min(clip_pg_rho, ratio[t, b]) * (r + gamma * vs_tp1 - value[t, b])
            vs[t, b] = vs_tp1 = value[t, b] + acc
    return vs, advantages


def reference(unroll, kind="discrete", constants=None, **settings):
    """The parts of the loss by name, float64; with the v_s and advantages of `constants` if given."""
    settings = SETTINGS | settings
    vs, advantages = targets(unroll, kind, **settings) if constants is None else constants
    assert vs.shape == advantages.shape == unroll["reward"][1:].shape
    policy_terms, baseline_terms, entropies, kl_terms = [], [], [], []
    for t, b in np.ndindex(vs.shape):
        log_pi, entropy = policy(unroll["target_policy"][t, b], unroll["action"][t, b], kind)
        log_mu, _ = policy(unroll["behaviour_policy"][t, b], unroll["action"][t, b], kind)
        policy_terms.append(-log_pi * advantages[t, b])
        baseline_terms.append(0.5 * (vs[t, b] - unroll["baseline"][t, b]) ** 2)
        entropies.append(entropy)
        kl_terms.append(log_mu - log_pi)
    parts = {
        "loss/policy": np.mean(policy_terms),
        "loss/baseline": settings["baseline_cost"] * np.mean(baseline_terms),
        "loss/entropy": -settings["entropy_cost"] * np.mean(entropies),
        "loss/kl": settings["kl_cost"] * np.mean(kl_terms),
    }
    values, ratio, bound = unroll["baseline"][: len(vs)], ratios(unroll, kind), settings["max_abs_reward"]
    unexplained = np.var(vs - values) / np.var(vs) if np.var(vs) else 1.0
    return {
        **parts,
        "loss/total": sum(parts.values()),
        "learning/explained_variance": max(-1.0, 1.0 - unexplained),
        "learning/clipped_share": np.mean(ratio > settings["clip_rho"]),
        "learning/clipped_mass": 1.0 - np.mean(np.minimum(ratio, settings["clip_rho"])),
        "learning/entropy_share": np.mean(entropies) / np.sum(np.log(KINDS[kind].n)),
        "policy/entropy": np.mean(entropies),
        "policy/kl_behaviour_target": np.mean(ratio - 1.0 - np.log(ratio)),
        "policy/mean_abs_advantage": np.mean(np.abs(advantages)),
        "policy/mean_value": np.mean(unroll["baseline"][: len(vs)]),
        "policy/value_unit": 1.0,
        **({"learning/value_to_bound": np.mean(np.abs(values)) * (1 - settings["discount"]) / bound} if bound else {}),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_the_random_unrolls_reach_both_sides_of_every_threshold(kind):
    unroll = random_unroll(4, 3, kind=kind)
    for clip in (1.0, SETTINGS["clip_rho"], SETTINGS["clip_pg_rho"]):
        assert 0 < np.sum(ratios(unroll, kind) > clip) < 12
    for scale in (1.0, SETTINGS["reward_scale"]):
        assert 0 < np.sum(np.abs(scale * unroll["reward"][1:]) > SETTINGS["max_abs_reward"]) < 12
    assert 0 < np.sum(unroll["done"][2:-1]) < 6, "an episode ends in mid-sequence"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("length", "batch"), [(1, 1), (1, 3), (4, 1), (4, 3)])
def test_total_and_parts_are_those_of_the_formulas(length, batch, kind):
    unroll = random_unroll(length, batch, kind=kind)
    total, metrics = loss_of(unroll, kind)
    assert total.shape == ()
    assert total.dtype == tf.float32
    expected = reference(unroll, kind)
    assert metrics.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(metrics[name], value, rtol=2e-5, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(total, expected["loss/total"], rtol=2e-5, atol=1e-6)


def test_bounds_of_zero_are_none():
    unroll = random_unroll(4, 3, kind="discrete")
    free, wide = (loss_of(unroll, clip_rho=bound, clip_pg_rho=bound) for bound in (0.0, 1e9))
    np.testing.assert_allclose(free[0], wide[0], rtol=1e-6)
    for name, value in free[1].items():
        np.testing.assert_allclose(value, wide[1][name], rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_takes_part_as_in_the_formulas(name):
    unroll = random_unroll(4, 3)
    default, other = reference(unroll)["loss/total"], reference(unroll, **{name: 0.0})["loss/total"]
    assert abs(default - other) > 1e-3, "it matters"
    np.testing.assert_allclose(loss_of(unroll, **{name: 0.0})[0], other, rtol=2e-5, atol=1e-6)


def test_a_clipped_ratio_weighs_the_advantage_once():
    """Its policy loss is PPO's surrogate of advantages without V-trace's importance weight."""
    unroll = random_unroll(4, 3)
    _, unweighted = targets(unroll, **SETTINGS | {"clip_pg_rho": np.inf})
    advantages = unweighted / ratios(unroll)
    surrogate = np.minimum(unweighted, np.clip(ratios(unroll), 0.7, 1.3) * advantages)
    metrics = loss_of(unroll, clip_ratio=0.3).metrics
    np.testing.assert_allclose(metrics["loss/policy"], -np.mean(surrogate), rtol=2e-5)


def test_ppo_learns_from_what_the_weights_before_the_first_pass_give():
    """Advantages by GAE, as in arXiv:1506.02438, equation 16, one step at a time; the centre of the ratio; targets."""
    unroll, other = random_unroll(4, 3), random_unroll(4, 3, seed=1)
    before = unroll | {name: other[name] for name in POLICY_AND_VALUES}
    discount, lambda_ = SETTINGS["discount"], SETTINGS["lambda_"]
    value, advantages = before["baseline"], np.zeros((5, 3))
    for t, b in itertools.product(reversed(range(4)), range(3)):
        r = np.clip(
            SETTINGS["reward_scale"] * unroll["reward"][t + 1, b], *np.array([-1, 1]) * SETTINGS["max_abs_reward"]
        )
        gamma = 0.0 if unroll["done"][t + 1, b] else discount
        advantages[t, b] = r + gamma * value[t + 1, b] - value[t, b] + gamma * lambda_ * advantages[t + 1, b]
    advantages = advantages[:-1]
    assert 0 < np.sum(ratios(before) < 0.5) < 12, "some probabilities of the acting policy count less"
    ratio = ratios(unroll) / np.maximum(ratios(before), 0.5)  # to mu, which cancels out
    surrogate = np.minimum(ratio * advantages, np.clip(ratio, 0.7, 1.3) * advantages)
    (total, metrics), found = ppo_loss_of(unroll, before, clip_ratio=0.3)
    np.testing.assert_allclose(metrics["loss/policy"], -np.mean(surrogate), rtol=2e-5)
    np.testing.assert_allclose(found.advantages, advantages, rtol=2e-5, atol=1e-6)
    errors = value[:-1] + advantages - unroll["baseline"][:-1]
    half = SETTINGS["baseline_cost"] / 2
    np.testing.assert_allclose(metrics["loss/baseline"], half * np.mean(np.square(errors)), rtol=2e-5)
    moved = np.clip(unroll["baseline"][:-1] - value[:-1], -0.1, 0.1)
    clipped = np.maximum(np.square(errors), np.square(advantages - moved))
    _, bounded = ppo_loss_of(unroll, before, clip_value=0.1)[0]
    np.testing.assert_allclose(bounded["loss/baseline"], half * np.mean(clipped), rtol=2e-5)
    entropies = [policy(unroll["target_policy"][i], unroll["action"][i], "discrete")[1] for i in np.ndindex(4, 3)]
    np.testing.assert_allclose(metrics["loss/entropy"], -SETTINGS["entropy_cost"] * np.mean(entropies), rtol=2e-5)
    assert float(total) == pytest.approx(sum(float(metrics[f"loss/{n}"]) for n in ("policy", "baseline", "entropy")))
    assert metrics.keys() | {"policy/entropy_cost"} == {"loss/total"} | {metric.name for metric in PPO.metrics}
    with pytest.raises(ValueError, match="PPO.clip_ratio must be positive"):
        PPO(clip_ratio=0.0)


def test_advantages_can_be_standardised_and_values_measured_in_a_unit():
    unroll = random_unroll(4, 3)
    _, advantages = targets(unroll, **SETTINGS)
    default = reference(unroll)
    log_pi = [policy(unroll["target_policy"][i], unroll["action"][i], "discrete")[0] for i in np.ndindex(4, 3)]
    standardised = (advantages - advantages.mean()) / advantages.std()
    for settings, expected in (({"advantage_norm": True}, standardised), ({"value_unit": 4.0}, advantages / 4)):
        metrics = loss_of(unroll, **settings).metrics
        np.testing.assert_allclose(metrics["loss/policy"], -np.mean(np.ravel(expected) * log_pi), rtol=2e-5)
    np.testing.assert_allclose(metrics["loss/baseline"], default["loss/baseline"] / 16, rtol=2e-5)


@pytest.mark.parametrize(
    ("kind", "length", "batch"), [("discrete", 1, 1), ("discrete", 4, 3), ("multi-discrete", 3, 2)]
)
def test_gradients_hold_targets_and_advantages_constant(kind, length, batch):
    unroll = random_unroll(length, batch, seed=11, kind=kind) | {"done": np.zeros((length + 1, batch), bool)}
    if length > 1:
        unroll["done"][2, 0] = True
    constants = targets(unroll, kind, **SETTINGS)
    tensors = {name: tf.constant(unroll[name], tf.float32) for name in (*POLICY_AND_VALUES, *CONSTANTS)}
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        total = loss_of(unroll | tensors, kind).total
    gradients = tape.gradient(total, tensors)
    assert [gradients[name] for name in CONSTANTS] == [None, None]
    for name in POLICY_AND_VALUES:
        gradient = gradients[name]

        def total_at(x, fixed=constants, name=name):
            return reference(unroll | {name: x}, kind, fixed)["loss/total"]

        surrogate = finite_differences(total_at, unroll[name], epsilon=1e-6)
        assert np.abs(surrogate[:-1]).min() > 1e-5, "every entry of steps 0 .. T - 1 has a gradient"
        np.testing.assert_array_equal(gradient[-1], 0, err_msg=f"{name} of step T only bootstraps")
        np.testing.assert_allclose(gradient, surrogate, rtol=1e-4, atol=1e-6, err_msg=name)
        if kind == "discrete":
            through = finite_differences(lambda x: total_at(x, fixed=None), unroll[name], epsilon=1e-6)
            assert np.abs(through - surrogate).max() > 1e-2, "a gradient through the targets would be seen"


@pytest.mark.parametrize(
    ("done", "vs"),
    [
        ((False, False, False), (12.0, 22.0)),  # v_1 = 2 + 40 / 2, v_0 = 1 + v_1 / 2
        ((True, False, False), (12.0, 22.0)),  # step 0 is the first of its episode: nothing of it is cut
        ((False, True, False), (1.0, 22.0)),  # a_0 ended the episode: v_0 = 1
        ((False, False, True), (2.0, 2.0)),  # a_1 ended it: v_1 = 2, v_0 = 1 + v_1 / 2
    ],
)
def test_two_steps_by_hand(done, vs):
    """An on-policy unroll with discount 1/2 and halved rewards; a neighbouring step would give other numbers."""
    logits = np.log([[[0.4, 0.2, 0.3, 0.05, 0.05]], [[0.1, 0.1, 0.6, 0.1, 0.1]], [[0.3, 0.2, 0.1, 0.2, 0.2]]])
    unroll = {
        "target_policy": logits,
        "behaviour_policy": logits,
        "baseline": np.array([[10.0], [21.0], [40.0]]),
        "action": np.array([[1], [2], [0]]),
        "reward": np.array([[99.0], [2.0], [4.0]]),
        "done": np.array(done)[:, None],
    }
    metrics = loss_of(
        unroll,
        discount=0.5,
        lambda_=1.0,
        clip_rho=1.0,
        clip_pg_rho=1.0,
        reward_scale=0.5,
        max_abs_reward=0.0,
        baseline_cost=1.0,
    ).metrics
    # On policy the advantage is v_t - V(x_t); the actions taken had the probabilities 0.2 and 0.6.
    advantage_0, advantage_1 = vs[0] - 10, vs[1] - 21
    policy_loss = -(np.log(0.2) * advantage_0 + np.log(0.6) * advantage_1) / 2
    np.testing.assert_allclose(metrics["loss/policy"], policy_loss, rtol=1e-5)
    np.testing.assert_allclose(metrics["loss/baseline"], (advantage_0**2 + advantage_1**2) / 4, rtol=1e-5)
    np.testing.assert_allclose(metrics["policy/mean_value"], 15.5, rtol=1e-6)
