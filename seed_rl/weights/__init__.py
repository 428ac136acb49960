"""Weights on disk: checkpoints, what a new run takes from an old one, and the members of a league."""
