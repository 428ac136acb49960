"""The actor: groups of environments, each with a stream to the learner. No TensorFlow here."""
