"""A disk that is full for a while."""

import contextlib
import resource


@contextlib.contextmanager
def largest_file(size):
    """Files of this process can't grow beyond this size: a write across it writes a part, and the next one fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))  # Python ignores SIGXFSZ
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
