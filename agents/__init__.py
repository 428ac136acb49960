"""Agents, one folder each with the same file names; `base` defines the interface between agent and learner."""

if __name__ != "seed_rl.agents":
    raise ImportError(f"import seed_rl.agents, not {__name__}: a second copy of each class would be created")
