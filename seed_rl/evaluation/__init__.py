"""The policy of a run, played and scored without a learner or actors."""
