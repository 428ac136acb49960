"""What is compared with the original, and how far it may differ."""

from typing import NamedTuple

EACH, LARGEST = "each number", "the largest number"
"""What a difference is divided by: the number itself, or the largest magnitude in its array."""


class Quantity(NamedTuple):
    name: str
    by: str
    """The functions that compute it here."""
    relative_to: str
    """`EACH` or `LARGEST`."""
    bound: float
    """Upper bound of the relative difference, on any CPU."""


_VTRACE, _R2D2 = "agents.vtrace.agent.VTraceAgent", "agents.r2d2.agent.R2D2Agent"
QUANTITIES = {
    quantity.name: quantity
    for quantity in (
        Quantity("V-trace: targets", "rl.vtrace.vtrace", LARGEST, 1e-6),
        Quantity("V-trace: advantages, weighted", "rl.vtrace.vtrace", LARGEST, 1e-6),
        Quantity("Value rescaling, from ±1 to ±1e6", "rl.value_rescaling", EACH, 1e-6),
        Quantity("Its inverse, from ±1 to ±1e6", "rl.value_rescaling", EACH, 1e-4),
        Quantity("n-step targets", "rl.n_step.n_step_returns", LARGEST, 1e-6),
        Quantity("R2D2: losses of sequences", "agents.r2d2.agent.r2d2_loss", EACH, 1e-4),
        Quantity("R2D2: priorities", "agents.r2d2.agent.r2d2_loss", EACH, 1e-4),
        Quantity("R2D2: first priorities of greedy sequences", "agents.r2d2.agent.td_errors", EACH, 1e-4),
        Quantity("R2D2: exploration", "rl.exploration.epsilon_ladder", EACH, 1e-6),
        Quantity("R2D2: importance weights", "buffers.samplers.PrioritizedSampler", EACH, 1e-6),
        Quantity("R2D2: frame stacks, and the state after them", "networks.frame_stack.stack_frames", EACH, 0.0),
        Quantity("Football: planes", "networks.trunk.unpack_planes", EACH, 0.0),
        Quantity("Categorical: log-probabilities", "rl.distributions.distribution_of", LARGEST, 1e-6),
        Quantity("Categorical: entropies", "rl.distributions.distribution_of", LARGEST, 1e-6),
        Quantity("Categorical: KL divergences", "rl.distributions.distribution_of", LARGEST, 1e-6),
        Quantity("Multi-categorical: log-probabilities", "rl.distributions.distribution_of", LARGEST, 1e-6),
        Quantity("Multi-categorical: entropies", "rl.distributions.distribution_of", LARGEST, 1e-6),
        Quantity("Squashed normal: log densities", "rl.distributions.distribution_of", LARGEST, 1e-6),
        Quantity("Adam: 50 steps", "experiment.optimizer.Optimizer", LARGEST, 2e-5),
        Quantity("Residual network with LSTM: logits", _VTRACE, LARGEST, 1e-6),
        Quantity("Residual network with LSTM: values", _VTRACE, LARGEST, 1e-6),
        Quantity("Residual network with LSTM: recurrent state", _VTRACE, LARGEST, 1e-5),
        Quantity("Residual network with LSTM: loss and its parts", _VTRACE, EACH, 1e-5),
        Quantity("Residual network with LSTM: gradients after the convolutions", _VTRACE, LARGEST, 1e-4),
        Quantity("Residual network with LSTM: gradients of the convolutions", _VTRACE, LARGEST, 1e-2),
        Quantity("Football network: logits", _VTRACE, LARGEST, 1e-4),
        Quantity("Football network: values", _VTRACE, LARGEST, 1e-4),
        Quantity("Football network: loss and its parts", _VTRACE, EACH, 5e-4),
        Quantity("Football network: gradients after the convolutions", _VTRACE, LARGEST, 1e-4),
        Quantity("Football network: gradients of the convolutions", _VTRACE, LARGEST, 1e-3),
        Quantity("R2D2's network: Q-values", _R2D2, LARGEST, 1e-6),
        Quantity("R2D2's network: recurrent state", _R2D2, LARGEST, 1e-6),
        Quantity("R2D2's network: loss, priorities", _R2D2, EACH, 1e-5),
        Quantity("R2D2's network: norms of gradients", _R2D2, EACH, 5e-4),
        Quantity("R2D2's network: losses of five updates", "learner.train_step.TrainStep", EACH, 1e-5),
    )
}
