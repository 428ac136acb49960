"""Prioritisation by rank (arXiv:1511.05952, section 3.3), which outliers among the priorities don't disturb."""

import numpy as np

from seed_rl.buffers.samplers import Sample, Sampler


class RankSampler(Sampler):
    """Draws in proportion to rank^-alpha, where the sequence with the largest priority has rank 1."""

    def sample(self, count: int) -> Sample:
        ranks = np.empty(len(self))
        ranks[np.argsort(-self.priorities)] = 1 + np.arange(len(self))
        chances = ranks**-self.priority_exponent
        drawn = self.generator.choice(len(self), count, p=chances / chances.sum())
        weights = (chances[drawn] / chances[drawn].min()) ** -self.importance_exponent
        return Sample(self.slots[drawn], weights.astype(np.float32))
