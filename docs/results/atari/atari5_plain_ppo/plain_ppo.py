#!/usr/bin/env python3
"""PPO on Atari as one would write it without this library: PyTorch and EnvPool, in one process.

    pip install torch envpool gymnasium
    python docs/results/atari/atari5_plain_ppo/plain_ppo.py --game=phoenix --minutes=32 --output=phoenix

Settings, network and losses are PPO's published ones for Atari, as CleanRL has them (`ppo_atari_envpool.py`):
8 environments, rollouts of 128 steps, 4 passes in 4 minibatches, a rate of 2.5e-4 that falls to zero over the run. The
environments follow the protocol of Machado et al. (arXiv:1709.06009): sticky actions, minimal action sets, complete
games of at most 108,000 frames. Writes OUTPUT.csv, a curve, and OUTPUT.json: the mean return of the episodes that ended
within the last million frames.
"""

import argparse
import collections
import csv
import json
import time

import envpool
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

ENVS, STEPS, PASSES, MINIBATCHES = 8, 128, 4, 4
RATE, DISCOUNT, LAMBDA, CLIP, ENTROPY, VALUE, NORM = 2.5e-4, 0.99, 0.95, 0.1, 0.01, 0.5, 0.5
SKIP = 4  # frames of an action
WINDOW = 1_000_000  # frames


def layer(module, gain=2**0.5):
    """Return a layer with an orthogonal kernel and a bias of zero."""
    nn.init.orthogonal_(module.weight, gain)
    nn.init.zeros_(module.bias)
    return module


class Network(nn.Module):
    """The network of Nature DQN with a policy and a value."""

    def __init__(self, actions):
        super().__init__()
        convolutions = (nn.Conv2d(4, 32, 8, 4), nn.Conv2d(32, 64, 4, 2), nn.Conv2d(64, 64, 3))
        layers = [part for each in convolutions for part in (layer(each), nn.ReLU())]
        self.torso = nn.Sequential(*layers, nn.Flatten(), layer(nn.Linear(3136, 512)), nn.ReLU())
        self.policy, self.value = layer(nn.Linear(512, actions), 0.01), layer(nn.Linear(512, 1), 1.0)

    def forward(self, frames):  # uint8 [N, 4, 84, 84]
        x = self.torso(frames.float() / 255)
        return Categorical(logits=self.policy(x)), self.value(x).squeeze(-1)


def update(network, optimizer, batch, advantages, returns):
    """Take the optimizer steps on one rollout, of tensors [STEPS x ENVS, ...]."""
    frames, actions, log_probs, values = batch
    for _ in range(PASSES):
        for chosen in torch.randperm(STEPS * ENVS).chunk(MINIBATCHES):
            policy, value = network(frames[chosen])
            ratio = (policy.log_prob(actions[chosen]) - log_probs[chosen]).exp()
            advantage = advantages[chosen]
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            clipped = values[chosen] + (value - values[chosen]).clamp(-CLIP, CLIP)
            loss = -torch.min(advantage * ratio, advantage * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
            error = torch.max((value - returns[chosen]) ** 2, (clipped - returns[chosen]) ** 2)
            loss += VALUE * 0.5 * error.mean() - ENTROPY * policy.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), NORM)
            optimizer.step()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--game", default="phoenix")
    parser.add_argument("--minutes", type=float, default=32.0, help="length of the run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", required=True, help="path without an ending")
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    env = envpool.make_gymnasium(
        f"{''.join(word.title() for word in arguments.game.split('_'))}-v5",
        num_envs=ENVS,
        seed=arguments.seed,
        repeat_action_probability=0.25,
        full_action_space=False,
        episodic_life=False,
        reward_clip=False,
        noop_max=1,
        frame_skip=SKIP,
        max_episode_steps=108_000 // SKIP,
    )
    network = Network(int(env.action_space.n))
    optimizer = torch.optim.Adam(network.parameters(), RATE, eps=1e-5)
    frames = torch.zeros(STEPS, ENVS, 4, 84, 84, dtype=torch.uint8)
    actions = torch.zeros(STEPS, ENVS, dtype=torch.int64)
    log_probs, values, rewards, ends = (torch.zeros(STEPS, ENVS) for _ in range(4))
    current, done = torch.as_tensor(env.reset()[0]), torch.zeros(ENVS)
    returns, ended, rows, steps = np.zeros(ENVS), collections.deque(), [], 0
    start = time.perf_counter()
    while (share := (time.perf_counter() - start) / (60 * arguments.minutes)) < 1:
        optimizer.param_groups[0]["lr"] = RATE * (1 - share)
        with torch.no_grad():
            for t in range(STEPS):
                frames[t], ends[t] = current, done
                policy, values[t] = network(current)
                actions[t] = policy.sample()
                log_probs[t] = policy.log_prob(actions[t])
                observed, reward, terminated, truncated, _ = env.step(actions[t].numpy().astype(np.int32))
                over, steps = terminated | truncated, steps + ENVS
                returns += reward
                ended.extend((steps * SKIP, total) for total in returns[over])
                returns[over] = 0
                current, done = torch.as_tensor(observed), torch.as_tensor(over)
                rewards[t] = torch.as_tensor(np.sign(reward))
            following, advantage, advantages = network(current)[1], torch.zeros(ENVS), torch.zeros(STEPS, ENVS)
            for t in reversed(range(STEPS)):
                alive = 1 - (ends[t + 1] if t + 1 < STEPS else done.float())
                after = values[t + 1] if t + 1 < STEPS else following
                delta = rewards[t] + DISCOUNT * alive * after - values[t]
                advantages[t] = advantage = delta + DISCOUNT * LAMBDA * alive * advantage
        batch = [each.flatten(0, 1) for each in (frames, actions, log_probs, values)]
        update(network, optimizer, batch, advantages.flatten(), (advantages + values).flatten())
        while ended and ended[0][0] <= steps * SKIP - WINDOW:
            ended.popleft()
        score = float(np.mean([total for _, total in ended])) if ended else None
        row = {"env_frames": steps * SKIP, "seconds": time.perf_counter() - start, "score": score}
        if not rows or row["env_frames"] >= rows[-1]["env_frames"] + 50_000:
            rows.append(row)
            print(row, flush=True)
    with open(f"{arguments.output}.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*row], lineterminator="\n")
        writer.writeheader()
        writer.writerows([*rows, row])
    with open(f"{arguments.output}.json", "w", encoding="utf-8") as file:
        json.dump({"game": arguments.game, "seed": arguments.seed, **row, "episodes": len(ended)}, file, indent=2)


if __name__ == "__main__":
    main()
