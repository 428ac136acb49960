"""A run whose actors, and if need be its learner, are Ray actors: Ray places them."""
