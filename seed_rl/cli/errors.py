"""One-sentence errors that end a command."""


class UsageError(Exception):
    """The command line is wrong; one sentence."""


class Failure(Exception):
    """The command could not do its work; one sentence."""
