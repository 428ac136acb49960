"""What can be wrong with environments."""


class CannotBuild(ValueError):
    """Environments that this machine can't build; the message says why."""
