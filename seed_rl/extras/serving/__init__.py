"""A run's policy as a server for actors and other clients."""
