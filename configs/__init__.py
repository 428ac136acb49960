"""Experiments as gin files."""
