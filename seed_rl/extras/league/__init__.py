"""Games against frozen copies of oneself, and ratings of policies."""
