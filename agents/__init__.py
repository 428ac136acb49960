"""Agents: a folder each, of settings without TensorFlow and of the agent; `base` is its interface to the learner."""

if __name__ != "seed_rl.agents":
    raise ImportError(f"import seed_rl.agents, not {__name__}: a second copy of each class would be created")
