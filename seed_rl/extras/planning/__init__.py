"""Actors, cores, network and memory that a learner needs, computed from measured rates."""
