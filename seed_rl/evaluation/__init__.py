"""The policy of a run: played, scored, filmed and exported, without a learner or actors."""
