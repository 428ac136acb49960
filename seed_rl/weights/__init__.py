"""Weights on disk: checkpoints, and what a new run takes from an old one."""
