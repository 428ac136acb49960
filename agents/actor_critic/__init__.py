"""What V-trace and PPO share: a network with policy and value, acting by sampling, and all settings but the loss's."""
