"""Policies for programs without seed_rl, for the Hugging Face Hub, and those that ship with the package."""
