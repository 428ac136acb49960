"""The mathematics of the agents: pure functions of tensors. Wrong shapes raise ValueError with the argument's name."""
