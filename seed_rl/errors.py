"""Errors that end a command with their message; other packages raise subclasses."""


class UsageError(Exception):
    """The command line is wrong."""


class Failure(Exception):
    """The command could not do its work."""
