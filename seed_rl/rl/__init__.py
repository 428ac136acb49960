"""The mathematics of the agents: pure functions of tensors."""
