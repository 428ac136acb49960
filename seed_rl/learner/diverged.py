"""When training is to end because it has gone wrong."""


class Diverged(Exception):
    """Training has gone wrong beyond repair; the message says how."""
