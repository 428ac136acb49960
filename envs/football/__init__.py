"""Google Research Football, observed as Super Mini Maps packed into bits."""

import dataclasses
from typing import Annotated, ClassVar

import gin
from gymnasium.vector import VectorEnv

from seed_rl.envs.base import CannotBuild, EnvConfig, Watchable
from seed_rl.envs.football.maps import NUM_ACTIONS, PackedMaps, RepeatedActions, newest_in_colours
from seed_rl.envs.vector.games import GamesVectorEnv
from seed_rl.envs.vector.pool import INSTALL, EnvPoolVectorEnv
from seed_rl.settings import Count, OneOf, Within
from seed_rl.specs import ArraySpec, DiscreteSpec, EnvSpec
from seed_rl.system.files import explaining

SCENARIOS = (
    *("11_vs_11_competition", "11_vs_11_easy_stochastic", "11_vs_11_hard_stochastic", "11_vs_11_kaggle"),
    *("11_vs_11_stochastic", "1_vs_1_easy", "5_vs_5", "academy_3_vs_1_with_keeper", "academy_corner"),
    *("academy_counterattack_easy", "academy_counterattack_hard", "academy_empty_goal", "academy_empty_goal_close"),
    *("academy_pass_and_shoot_with_keeper", "academy_run_pass_and_shoot_with_keeper", "academy_run_to_score"),
    *("academy_run_to_score_with_keeper", "academy_single_goal_versus_lazy"),
)
_INSTALL = "run scripts/install_gfootball.sh to build it, or use Football.backend = 'envpool', which is prebuilt"


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Football(EnvConfig):
    """A match or drill of football, in which agents control players of one or both teams.

    By default an agent controls the left team's player nearest to the ball. The first `left_players` rows of a match
    are a team.
    """

    suite: ClassVar[str] = "football"
    task_setting: ClassVar[str] = "scenario"

    scenario: Annotated[str, OneOf(*SCENARIOS)] = "academy_empty_goal_close"
    """One of the engine's matches and drills, see `SCENARIOS`."""
    rewards: Annotated[str, OneOf("scoring", "scoring,checkpoints")] = "scoring"
    """`scoring`: 1 for a goal, -1 for an opponents' goal; `scoring,checkpoints`: additionally 0.1 for each of ten
    circles around the opponents' goal when the player with the ball first enters it."""
    num_action_repeats: Annotated[int, Within(1, 100)] = 1
    """Number of environment frames, tenths of a second of the match, for which each action is repeated. If a match ends
    before the last repetition, the next one begins with idle frames."""
    map: Annotated[str, OneOf("96x72", "120x90", "144x108")] = "96x72"
    """Width and height of the maps; EnvPool supports only 96x72."""
    left_players: Count = 1
    """Number of controlled players in the left team, of which the engine controls the others."""
    right_players: Annotated[int, Within(0)] = 0
    """The same for the right team; if as many, the teams change sides at random with each episode."""
    backend: Annotated[str, OneOf("gfootball", "envpool")] = "gfootball"
    """`gfootball`: the engine's own package, which must be compiled; `envpool`: the same engine, prebuilt and stepped
    in native threads."""

    def __post_init__(self):
        super().__post_init__()
        if self.backend == "envpool" and self.map != "96x72":
            raise ValueError(f"Football.map must be 96x72 with the envpool backend, got {self.map}")
        if self.backend == "envpool" and self.players > 1:
            raise ValueError("Football.backend must be gfootball with several players, got envpool")

    @classmethod
    def tasks(cls) -> list[str]:
        return list(SCENARIOS)

    @property
    def packages(self) -> dict[str, str]:
        return {"envpool": INSTALL} if self.backend == "envpool" else {"gfootball": _INSTALL}

    @property
    def action_repeat(self) -> int:
        return self.num_action_repeats

    @property
    def players(self) -> int:
        return self.left_players + self.right_players

    @property
    def home_players(self) -> int:
        return self.left_players

    @property
    def map_shape(self) -> tuple[int, int]:
        """Height and width of the maps."""
        width, height = map(int, self.map.split("x"))
        return height, width

    def spec(self) -> EnvSpec:
        return EnvSpec(ArraySpec(self.map_shape, "uint16"), DiscreteSpec(NUM_ACTIONS))

    def watch(self) -> Watchable:
        """Draw the maps in colour, which needs neither a display nor the engine's renderer."""
        return Watchable(self.make(self.players), lambda maps: newest_in_colours(maps[0]))

    def make(self, num_envs: int) -> VectorEnv:
        self.check_rows("the number of environments", num_envs)
        self.check_packages()
        repeats = self.num_action_repeats
        if self.backend == "envpool":
            maps = EnvPoolVectorEnv(f"gfootball/{self.scenario}-v1", num_envs, {})
            env: VectorEnv = PackedMaps(maps, "checkpoints" in self.rewards, ends_late=repeats > 1)
        else:
            with explaining(CannotBuild, f"gfootball can't be loaded ({_INSTALL})", ImportError):
                from seed_rl.envs.football.engine import FootballGame
            wanted = f"{self.left_players} players of the left team and {self.right_players} of the right one"
            with explaining(CannotBuild, f"{self.scenario} has fewer players than {wanted}", IndexError):
                env = GamesVectorEnv([FootballGame(self) for _ in range(num_envs // self.players)])
        return env if repeats == 1 else RepeatedActions(env, repeats)
