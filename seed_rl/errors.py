"""The two kinds of errors that end a command with their message; every other error for users is one of them."""


class UsageError(Exception):
    """The command line is wrong."""

    exit_code = 2


class Failure(Exception):
    """The command could not do its work."""

    exit_code = 1


class OthersGone(Failure):
    """Other processes of a run are gone that this one needs; it may be started again."""

    exit_code = 75
