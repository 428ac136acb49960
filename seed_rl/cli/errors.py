"""Errors of one sentence, which end a command."""


class UsageError(Exception):
    """A mistake on the command line, in one sentence."""


class Failure(Exception):
    """Why a command could not do its work, in one sentence."""
