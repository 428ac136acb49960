"""Errors of journals and replays."""


class JournalError(Exception):
    """A journal that can't be used; the message names it and the reason."""


class Differs(Exception):
    """A replay that came out differently; the message names the first difference."""
