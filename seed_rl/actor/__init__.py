"""The actor: environments, and a stream to the learner for each group of them. No TensorFlow here."""
