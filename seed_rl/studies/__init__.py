"""Several runs: sweeps, searches, comparisons."""
