"""Journals of runs: what is needed, besides the seeds, to execute a run again to the bit."""
