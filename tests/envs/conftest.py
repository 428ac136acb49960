import contextlib

import pytest


@pytest.fixture
def make():
    """Builds vector environments of a config, which are closed at the end."""
    with contextlib.ExitStack() as made:
        yield lambda config, num_envs: made.enter_context(contextlib.closing(config.make(num_envs)))
