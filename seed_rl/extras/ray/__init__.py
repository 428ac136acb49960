"""Runs on a Ray cluster: actors that follow its nodes, and learner hosts on dedicated nodes (`--launcher=ray`)."""
