"""Runs that are recorded, and repeated bit for bit by anyone."""
