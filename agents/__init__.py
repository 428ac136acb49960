"""Agents: what is learned and how. Each is a folder with the same file names; `base` is what a learner needs of one."""

if __name__ != "seed_rl.agents":
    raise ImportError(f"import seed_rl.agents, not {__name__}: a second copy of each class would be created")
