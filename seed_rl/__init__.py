"""Distributed reinforcement learning with central inference."""

__version__ = "0.1.0"
