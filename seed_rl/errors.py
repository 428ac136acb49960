"""The errors that end a command with one sentence; other packages raise subclasses of them."""


class UsageError(Exception):
    """The command line is wrong; one sentence."""


class Failure(Exception):
    """The command could not do its work; one sentence."""
