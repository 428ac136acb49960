"""Journals: with the seeds, all that is needed to reproduce a run bit for bit."""
