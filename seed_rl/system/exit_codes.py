"""Exit codes of the command line."""

FAILURE = 1
"""The exit code of a command that could not do its work."""
USAGE_ERROR = 2
"""That of a command line that makes no sense."""
