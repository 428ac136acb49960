"""What can be wrong with environments."""


class CannotBuild(ValueError):
    """Environments that this machine can't build; the message says why."""


class EnvironmentFailed(RuntimeError):
    """An environment raised an error, or its process ended; the message says which and how."""
