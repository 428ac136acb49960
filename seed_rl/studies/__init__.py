"""Work on several runs: sweeps, searches and comparisons."""
