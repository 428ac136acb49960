"""The metrics of a run: how rows are computed, what they mean, and the files and services that receive them."""
