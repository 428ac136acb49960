"""Ends of episodes over real connections: which environments step alone, and where an episode must begin."""

import numpy as np
import pytest

from seed_rl.transport.client import Rejected
from seed_rl.types import EnvOutput

BEGINS, GOES_ON, ENDS, TERMINAL = (1, 0), (0, 0), (0, 1), (1, 1)


def steps_of(*flags):
    """Steps of environments with these pairs of done and last."""
    done, last = np.array(flags, bool).T
    observation = np.full((len(flags), 4), 1, np.int32)
    return EnvOutput(np.zeros(len(flags), np.float32), done, last, observation)


@pytest.mark.parametrize("share_memory", [False, True])
def test_environments_whose_episodes_end_go_on_alone_or_with_all_others(house, share_memory):
    learner = house.serve()
    _, (stream,) = house.streams(house.connect(share_memory=share_memory), [3])
    for step, actions in [
        (steps_of(BEGINS, BEGINS, BEGINS), [4, 5, 6]),
        (steps_of(ENDS, GOES_ON, ENDS), [4, 5, 6]),
        (steps_of(BEGINS, BEGINS), [4, 6]),
        (steps_of(GOES_ON, TERMINAL, BEGINS), [4, 5, 6]),
        (steps_of(BEGINS, BEGINS, BEGINS), [4, 5, 6]),
        (steps_of(ENDS, ENDS, ENDS), [4, 5, 6]),
        (steps_of(BEGINS, BEGINS, BEGINS), [4, 5, 6]),
    ]:
        assert stream.step(step).tolist() == actions
    assert [len(output.done) for _, _, output in learner.service.steps] == [3, 3, 2, 3, 3, 3, 3]


@pytest.mark.parametrize("share_memory", [False, True])
def test_an_episode_begins_where_it_must(house, share_memory):
    house.serve()
    client = house.connect(share_memory=share_memory)
    first = steps_of(BEGINS, BEGINS, BEGINS)
    two_end = steps_of(ENDS, ENDS, GOES_ON)
    for *steps, wrong in [
        [steps_of(GOES_ON, BEGINS, BEGINS)],
        [first, two_end, steps_of(BEGINS, GOES_ON)],
        [first, two_end, steps_of(BEGINS, GOES_ON, GOES_ON)],
        [first, two_end, steps_of(BEGINS)],  # too few
        [first, steps_of(BEGINS, BEGINS)],  # none has ended
    ]:
        _, (stream,) = house.streams(client, [3])
        for step in steps:
            stream.step(step)
        with pytest.raises(Rejected, match="done must be 1 in an environment's first step|expected a"):
            stream.step(wrong)
