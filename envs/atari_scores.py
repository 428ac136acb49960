"""Human-normalised scores of 57 Atari games (arXiv:1511.06581, episodes begin with no-ops): 0 is a random policy."""

from __future__ import annotations

from typing import NamedTuple


class Reference(NamedTuple):
    """Mean returns that a game's scores are measured by."""

    human: float
    random: float


REFERENCES = {
    "alien": Reference(human=7127.7, random=227.8),
    "amidar": Reference(human=1719.5, random=5.8),
    "assault": Reference(human=742.0, random=222.4),
    "asterix": Reference(human=8503.3, random=210.0),
    "asteroids": Reference(human=47388.7, random=719.1),
    "atlantis": Reference(human=29028.1, random=12850.0),
    "bank_heist": Reference(human=753.1, random=14.2),
    "battle_zone": Reference(human=37187.5, random=2360.0),
    "beam_rider": Reference(human=16926.5, random=363.9),
    "berzerk": Reference(human=2630.4, random=123.7),
    "bowling": Reference(human=160.7, random=23.1),
    "boxing": Reference(human=12.1, random=0.1),
    "breakout": Reference(human=30.5, random=1.7),
    "centipede": Reference(human=12017.0, random=2090.9),
    "chopper_command": Reference(human=7387.8, random=811.0),
    "crazy_climber": Reference(human=35829.4, random=10780.5),
    "defender": Reference(human=18688.9, random=2874.5),
    "demon_attack": Reference(human=1971.0, random=152.1),
    "double_dunk": Reference(human=-16.4, random=-18.6),
    "enduro": Reference(human=860.5, random=0.0),
    "fishing_derby": Reference(human=-38.7, random=-91.7),
    "freeway": Reference(human=29.6, random=0.0),
    "frostbite": Reference(human=4334.7, random=65.2),
    "gopher": Reference(human=2412.5, random=257.6),
    "gravitar": Reference(human=3351.4, random=173.0),
    "hero": Reference(human=30826.4, random=1027.0),
    "ice_hockey": Reference(human=0.9, random=-11.2),
    "jamesbond": Reference(human=302.8, random=29.0),
    "kangaroo": Reference(human=3035.0, random=52.0),
    "krull": Reference(human=2665.5, random=1598.0),
    "kung_fu_master": Reference(human=22736.3, random=258.5),
    "montezuma_revenge": Reference(human=4753.3, random=0.0),
    "ms_pacman": Reference(human=6951.6, random=307.3),
    "name_this_game": Reference(human=8049.0, random=2292.3),
    "phoenix": Reference(human=7242.6, random=761.4),
    "pitfall": Reference(human=6463.7, random=-229.4),
    "pong": Reference(human=14.6, random=-20.7),
    "private_eye": Reference(human=69571.3, random=24.9),
    "qbert": Reference(human=13455.0, random=163.9),
    "riverraid": Reference(human=17118.0, random=1338.5),
    "road_runner": Reference(human=7845.0, random=11.5),
    "robotank": Reference(human=11.9, random=2.2),
    "seaquest": Reference(human=42054.7, random=68.4),
    "skiing": Reference(human=-4336.9, random=-17098.1),
    "solaris": Reference(human=12326.7, random=1236.3),
    "space_invaders": Reference(human=1668.7, random=148.0),
    "star_gunner": Reference(human=10250.0, random=664.0),
    "surround": Reference(human=6.5, random=-10.0),
    "tennis": Reference(human=-8.3, random=-23.8),
    "time_pilot": Reference(human=5229.2, random=3568.0),
    "tutankham": Reference(human=167.6, random=11.4),
    "up_n_down": Reference(human=11693.2, random=533.4),
    "venture": Reference(human=1187.5, random=0.0),
    "video_pinball": Reference(human=17667.9, random=16256.9),
    "wizard_of_wor": Reference(human=4756.5, random=563.5),
    "yars_revenge": Reference(human=54576.9, random=3092.9),
    "zaxxon": Reference(human=9173.3, random=32.5),
}


def human_normalised(game: str, mean_return: float) -> float | None:
    """100 * (mean return - random) / (human - random); None for a game without references.

    Args:
      game: name of a ROM.
      mean_return: of unclipped rewards.
    """
    if game not in REFERENCES:
        return None
    reference = REFERENCES[game]
    return 100 * (mean_return - reference.random) / (reference.human - reference.random)
