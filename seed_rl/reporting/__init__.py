"""From the training loop to files and screens: metrics, their catalogue, sinks and what they say of a run."""
