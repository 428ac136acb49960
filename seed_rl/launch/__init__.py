"""Starts the processes of a run and looks after them; the command line."""
