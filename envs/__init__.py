"""Environments: one module per suite, which builds Gymnasium vector environments. No TensorFlow here."""

if __name__ != "seed_rl.envs":
    raise ImportError(f"import seed_rl.envs, not {__name__}: a second copy of each class would be created")
