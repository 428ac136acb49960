"""The learner: the one training loop, its optimizer, devices and metrics."""
