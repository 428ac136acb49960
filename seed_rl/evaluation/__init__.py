"""What a run has learned: its policy, played, scored, filmed and exported. Needs no learner and no actors."""
