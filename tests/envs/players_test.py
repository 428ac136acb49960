"""Games of several players, each of which is a row of the batch."""

import pytest

from seed_rl.agents.vtrace import VTrace
from seed_rl.envs.base import CannotBuild
from seed_rl.envs.catch import Catch
from seed_rl.experiment import Actors, Experiment


class ThreePlayers(Catch):
    players = 3


@pytest.mark.parametrize(("envs_per_group", "num_eval_envs"), [(4, 3), (6, 2)])
def test_groups_and_evaluation_have_whole_games(envs_per_group, num_eval_envs):
    name, rows = ("envs_per_group", 4) if envs_per_group == 4 else ("num_eval_envs", 2)
    expected = rf"Actors.{name} must be a multiple of the number of players in .* \(3\), got {rows}"
    with pytest.raises(CannotBuild, match=expected):
        Experiment(ThreePlayers(), VTrace(), actors=Actors(2, 1, envs_per_group, num_eval_envs))
    Experiment(ThreePlayers(), VTrace(), actors=Actors(2, 1, 6, 3))
