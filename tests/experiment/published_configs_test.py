"""The gin files of published experiments have the published settings."""

import pytest

from seed_rl.experiment import config_files

# What the paper, its results page and the released scripts state, copied from there and not from the gin files.
FOOTBALL = {
    "env.kind": "Football",
    "env.scenario": "11_vs_11_hard_stochastic",
    "env.map": "96x72",
    "agent.kind": "VTrace",
    "agent.torso": "deep",
    "agent.channels": [16, 32, 32, 32],
    "agent.residual_blocks": 2,
    "agent.hidden": 0,
    "agent.core": "none",
    "agent.previous_step_inputs": False,
    "agent.kernel_initializer": "lecun_normal",
    "agent.unroll_length": 32,
    "agent.discount": 0.997,
    "agent.baseline_cost": 0.5,
    "agent.max_abs_reward": 0.0,
    "batch_size": 32,
    "inference.max_batch_size": 64,
    "agent.truncation_is_termination": True,
    "total_frames": 500_000_000,
    "optimizer.name": "adam",
    "optimizer.schedule": "constant",
    "optimizer.beta_1": 0.9,
    "optimizer.epsilon": 1e-7,
}
DMLAB = {
    "env.kind": "DMLab",
    "env.width": 96,
    "env.height": 72,
    "env.num_action_repeats": 4,
    "agent.kind": "VTrace",
    "agent.torso": "deep",
    "agent.channels": [16, 32, 32],
    "agent.hidden": 0,
    "agent.core": "lstm",
    "agent.core_units": 256,
    "agent.previous_step_inputs": True,
    "agent.frame_stack": 1,
    "agent.unroll_length": 100,
    "agent.discount": 0.99,
    "agent.max_abs_reward": 1.0,
    "batch_size": 32,
    "inference.max_batch_size": 64,
    "agent.truncation_is_termination": True,
    "total_frames": 1_000_000_000,  # the default of its flag, which the published runs leave
    "optimizer.name": "adam",
    "optimizer.schedule": "linear",
    "optimizer.beta_1": 0.0,
}
PUBLISHED = {
    "atari/r2d2": {
        "env.kind": "Atari",
        "env.full_action_set": True,
        "env.frame_skip": 4,
        "env.max_noops": 30,
        "env.max_episode_frames": 108_000,
        "env.resize": "linear",
        "agent.truncation_is_termination": True,
        "agent.max_abs_reward": 0.0,
        "agent.kind": "R2D2",
        "agent.torso": "shallow",
        "agent.core": "lstm",
        "agent.core_units": 512,
        "agent.unroll_length": 80,
        "agent.burn_in": 40,
        "agent.n_steps": 5,
        "agent.discount": 0.997,
        "agent.value_rescaling": True,
        "agent.target_update_period": 2500,
        "agent.epsilon_base": 0.4,
        "agent.epsilon_low": 1.0,
        "agent.epsilon_high": 8.0,
        "agent.eval_epsilon": 1e-3,
        "batch_size": 64,
        "replay.capacity": 100_000,
        "replay.min_size": 5_000,
        "replay.ratio": 0.75,
        "replay.priority_exponent": 0.9,
        "replay.importance_exponent": 0.6,
        "optimizer.name": "adam",
        "optimizer.learning_rate": 1e-4,
        "optimizer.epsilon": 1e-3,
        "optimizer.clip_norm": 80.0,
        "inference.max_batch_size": 32,
        "actors.num_eval_envs": 30,
        "total_frames": 40_000_000_000,  # of the published curves; the released script sets 50e9
    },
    "mujoco/sac_halfcheetah": {  # arXiv:1812.05905, table 1; CleanRL's length and replay before the first update
        "env.task": "HalfCheetah",
        "agent.kind": "SAC",
        "agent.head_layers": 2,
        "agent.hidden": 256,
        "agent.discount": 0.99,
        "agent.n_steps": 1,
        "agent.entropy_per_dimension": -1.0,
        "replay.sampler": "uniform",
        "replay.capacity": 1_000_000,
        "replay.min_size": 5_000,
        "optimizer.name": "adam",
        "optimizer.learning_rate": 3e-4,
        "optimizer.schedule": "constant",
        "total_frames": 1_000_000,
    },
}
for level, entropy_cost, lambda_, learning_rate, epsilon in (
    ("explore_goal_locations_small", 9.705614902108625e-4, 0.95, 2.2587896096859582e-4, 3.125e-9),
    ("lasertag_three_opponents_small", 1.3043623417080615e-3, 0.9, 3.98313170083425e-4, 3.125e-11),
    ("rooms_keys_doors_puzzle", 2e-3, 0.922, 1e-4, 3.125e-11),
    ("rooms_watermaze", 1e-5, 0.99, 1e-4, 3.125e-7),
):
    PUBLISHED[f"dmlab/{level}"] = DMLAB | {
        "env.level": level,
        "agent.entropy_cost": entropy_cost,
        "agent.lambda_": lambda_,
        "optimizer.learning_rate": learning_rate,
        "optimizer.epsilon": epsilon,
    }
for name, rewards, entropy_cost, lambda_, learning_rate in (
    ("vtrace_checkpoints", "scoring,checkpoints", 7.330944745454107e-4, 1.0, 1.2542101122072784e-4),
    ("vtrace_scoring", "scoring", 3.1948327487872845e-5, 0.9, 5.533923433816456e-5),
):
    PUBLISHED[f"football/{name}"] = FOOTBALL | {
        "env.rewards": rewards,
        "agent.entropy_cost": entropy_cost,
        "agent.lambda_": lambda_,
        "optimizer.learning_rate": learning_rate,
    }
TRAINING_ENVS = {"atari": 610, "dmlab": 400, "football": 200, "mujoco": 8}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_config_has_the_published_values(name):
    loaded = config_files.load([name])
    values = loaded.to_json()
    assert {key: values[key] for key in PUBLISHED[name]} == PUBLISHED[name]
    assert loaded.actors.num_training_envs == TRAINING_ENVS[name.split("/")[0]]
