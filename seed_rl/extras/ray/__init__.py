"""Runs on a Ray cluster: actors that follow its nodes, and learner hosts on nodes of their own (`--launcher=ray`)."""
