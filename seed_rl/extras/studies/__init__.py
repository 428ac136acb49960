"""Several runs: sweeps and searches."""
