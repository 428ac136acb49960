"""A run whose actors are Ray actors: Ray places them on its nodes and restarts them."""
