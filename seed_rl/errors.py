"""The two kinds of errors that end a command with their message; every other error for users is one of them."""


class UsageError(Exception):
    """The command line is wrong."""


class Failure(Exception):
    """The command could not do its work."""
