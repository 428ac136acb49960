#!/usr/bin/env python3
"""V-trace on Pong as one would write it without this library: PyTorch, synchronous, one process, no transport.

    pip install torch ale-py gymnasium
    python docs/results/performance/plain_torch.py --recipe=vtrace_fast --dtype=float32 --seconds=60

The network, the environments, the batches and the number of optimizer steps are those of `atari/vtrace_pong` or
`atari/vtrace_fast`. Prints the environment frames per second after the first `--settle` seconds.
"""

import argparse
import time

import ale_py
import torch
from gymnasium.vector import AutoresetMode
from torch import nn

ENVS, ACTIONS = 64, 6


class Network(nn.Module):
    """Convolutions, a dense layer, policy and value; with `normalise`, standardised pixels and layer normalisation."""

    def __init__(self, convolutions, hidden, normalise):
        super().__init__()
        layers, channels, side = [], 4, 84
        for filters, size, stride in convolutions:
            layers += [nn.Conv2d(channels, filters, size, stride), nn.ReLU()]
            channels, side = filters, (side - size) // stride + 1
        norm = [nn.LayerNorm(hidden)] if normalise else []
        self.torso = nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * side * side, hidden), *norm, nn.ReLU())
        self.heads = nn.Linear(hidden, ACTIONS + 1)
        self.normalise = normalise
        self.register_buffer("mean", torch.zeros(1, 1, 84, 84))
        self.register_buffer("deviation", torch.ones(1, 1, 84, 84))

    def forward(self, frames):  # uint8 [N, 4, 84, 84]
        x = frames.to(memory_format=torch.channels_last).float()
        x = ((x - self.mean) / self.deviation).clamp(-10, 10) if self.normalise else x / 255
        outputs = self.heads(self.torso(x)).float()
        return outputs[:, :ACTIONS], outputs[:, ACTIONS]


RECIPES = {
    "vtrace_pong": {"net": (((32, 8, 4), (64, 4, 2), (64, 3, 1)), 512, False), "steps": 20, "passes": 1, "clip": 0.0},
    "vtrace_fast": {"net": (((16, 8, 4), (32, 4, 2), (64, 3, 1)), 256, True), "steps": 32, "passes": 2, "clip": 0.2},
}
UNROLLS = 8  # per optimizer step


def vtrace(log_rhos, rewards, discounts, values, bootstrap, lambda_=0.95):
    """Targets of the values, and advantages, [T, B] (arXiv:1802.01561)."""
    rhos = log_rhos.exp().clamp(max=1)
    following = torch.cat([values[1:], bootstrap[None]])
    deltas = rhos * (rewards + discounts * following - values)
    error, errors = torch.zeros_like(bootstrap), []
    for t in reversed(range(len(rewards))):
        error = deltas[t] + discounts[t] * lambda_ * rhos[t] * error
        errors.append(error)
    targets = torch.stack(errors[::-1]) + values
    return targets, rhos * (rewards + discounts * torch.cat([targets[1:], bootstrap[None]]) - values)


def loss_of(network, batch, clip):
    frames, actions, behaviour, rewards, discounts = batch
    steps, unrolls = frames.shape[:2]
    logits, values = network(frames.flatten(0, 1))
    logits, values = logits.view(steps, unrolls, -1), values.view(steps, unrolls)
    distribution = torch.distributions.Categorical(logits=logits[:-1])
    log_rhos = distribution.log_prob(actions) - behaviour
    with torch.no_grad():
        targets, advantages = vtrace(log_rhos, rewards, discounts, values[:-1], values[-1])
        if clip:
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    if clip:
        ratio = log_rhos.exp()
        policy = -torch.minimum(ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages).mean()
    else:
        policy = -(distribution.log_prob(actions) * advantages).mean()
    return policy + 0.25 * (targets - values[:-1]).square().mean() - 0.01 * distribution.entropy().mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--recipe", choices=RECIPES, default="vtrace_fast")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--settle", type=float, default=10.0)
    parser.add_argument("--seconds", type=float, default=30.0)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    recipe = RECIPES[arguments.recipe]
    steps, autocast = recipe["steps"], torch.autocast("cpu", torch.bfloat16, enabled=arguments.dtype == "bfloat16")
    network = Network(*recipe["net"]).to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(network.parameters(), 4e-4, eps=1e-5)
    options = {"stack_num": 4, "num_threads": arguments.threads, "autoreset_mode": AutoresetMode.SAME_STEP}
    env = ale_py.AtariVectorEnv("pong", ENVS, repeat_action_probability=0.25, **options)
    frames = torch.zeros(steps + 1, ENVS, 4, 84, 84, dtype=torch.uint8)
    actions = torch.zeros(steps, ENVS, dtype=torch.int64)
    behaviour, rewards, discounts = torch.zeros(3, steps, ENVS)
    frames[-1] = torch.from_numpy(env.reset(seed=0)[0])
    started, counted, moments = time.monotonic(), 0, torch.zeros(3, 1, 1, 84, 84)
    while time.monotonic() - started < arguments.settle + arguments.seconds:
        if time.monotonic() - started < arguments.settle:
            begun, counted = time.monotonic(), 0
        frames[0] = frames[-1]
        for t in range(steps):
            with torch.no_grad(), autocast:
                distribution = torch.distributions.Categorical(logits=network(frames[t])[0])
            actions[t] = distribution.sample()
            behaviour[t] = distribution.log_prob(actions[t])
            observation, reward, terminated, truncated, _ = env.step(actions[t].numpy())
            frames[t + 1] = torch.from_numpy(observation)
            rewards[t] = torch.from_numpy(reward).float().clamp(-1, 1)
            discounts[t] = 0.99 * (1 - torch.from_numpy(terminated | truncated).float())
        if network.normalise:
            newest = frames[1:, :, -1:].flatten(0, 1).float()
            moments += torch.stack([torch.ones(1, 1, 84, 84), newest.mean(0, True), newest.square().mean(0, True)])
            network.mean.copy_(moments[1] / moments[0])
            network.deviation.copy_((moments[2] / moments[0] - network.mean**2).clamp(min=1).sqrt())
        for _ in range(recipe["passes"]):
            for part in torch.randperm(ENVS).split(UNROLLS):
                with autocast:
                    batch = [field[:, part] for field in (frames, actions, behaviour, rewards, discounts)]
                    loss = loss_of(network, batch, recipe["clip"])
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(network.parameters(), 1.0)
                optimizer.step()
        counted += steps * ENVS
    print(f"{4 * counted / (time.monotonic() - begun):,.0f} frames/s")


if __name__ == "__main__":
    main()
