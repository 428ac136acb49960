#!/usr/bin/env python3
"""IMPALA on Pong as RLlib trains it, with the network, environments and batches of `atari/vtrace_pong`.

    pip install torch "ray[rllib]" "gymnasium[atari]" opencv-python-headless
    python docs/results/performance/rllib_impala.py --runners=2 --seconds=60

Prints the environment frames per second after the first `--settle` seconds.
"""

import argparse
import time

import ale_py
import gymnasium as gym
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.wrappers.atari_wrappers import wrap_atari_for_new_api_stack
from ray.tune.registry import register_env

ENVS = 64


def make(_):
    gym.register_envs(ale_py)
    env = gym.make("ale_py:ALE/Pong-v5", frameskip=1, repeat_action_probability=0.25, full_action_space=False)
    return wrap_atari_for_new_api_stack(env, dim=84, frameskip=4, framestack=4)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runners", type=int, default=2)
    parser.add_argument("--settle", type=float, default=30.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    register_env("pong", make)
    network = DefaultModelConfig(
        conv_filters=[[32, 8, 4], [64, 4, 2], [64, 3, 1]],
        conv_activation="relu",
        head_fcnet_hiddens=[512],
        head_fcnet_activation="relu",
        vf_share_layers=True,
    )
    config = (
        IMPALAConfig()
        .environment("pong")
        .env_runners(
            num_env_runners=arguments.runners,
            num_envs_per_env_runner=ENVS // max(1, arguments.runners),
            rollout_fragment_length=20,
            num_cpus_per_env_runner=0.5,
        )
        .learners(num_learners=0)
        .training(train_batch_size_per_learner=160, lr=5e-4, grad_clip=40.0, entropy_coeff=0.005)
        .rl_module(model_config=network)
        .reporting(min_time_s_per_iteration=2)
    )
    algorithm = config.build_algo()
    started, begun, first, steps = time.monotonic(), 0.0, 0, 0
    while time.monotonic() - started < arguments.settle + arguments.seconds:
        results = algorithm.train()
        steps = results["env_runners"].get("num_env_steps_sampled_lifetime", steps)
        if not begun and time.monotonic() - started > arguments.settle:
            begun, first = time.monotonic(), steps
    trained = results["learners"]["__all_modules__"].get("num_env_steps_trained_lifetime")
    print(f"{4 * (steps - first) / (time.monotonic() - begun):,.0f} frames/s; sampled {steps}, trained on {trained}")
    algorithm.stop()


if __name__ == "__main__":
    main()
