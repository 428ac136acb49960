"""Games against frozen copies of oneself, and ratings of policies."""

from seed_rl.extras.league.settings import League

__all__ = ["League"]
