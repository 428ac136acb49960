"""The learner: the one training loop, its optimizer, checkpoints and metrics."""
