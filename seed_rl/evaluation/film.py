"""Films episodes that a policy plays, with the score on the picture: mp4 and gif, on machines without a display."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import imageio.v2 as imageio
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from seed_rl.envs.pictures import Watchable
from seed_rl.evaluation.episodes import Played, play
from seed_rl.evaluation.policy import Policy
from seed_rl.types import EnvOutput

_BAR = 20  # pixels, below the picture


def film(policy: Policy, env: Watchable, episodes: int, seed: int, paths: Sequence[str], fps: float) -> Played:
    """Plays episodes, one after the other, into films.

    Args:
      policy: acts.
      env: what it plays in.
      episodes: number to play.
      seed: of the environment.
      paths: files to write; their endings (.mp4, .gif) say the format.
      fps: pictures (agent steps) per second.

    Raises:
      OSError: a file can't be written.
    """
    score, episode, step = 0.0, 1, 0
    with ExitStack() as files:
        films = [files.enter_context(_writer(path, fps)) for path in paths]

        def on_step(output: EnvOutput) -> None:
            nonlocal score, episode, step
            score, step = score + float(output.reward[0]), step + 1
            if output.done[0] and step > 1:
                episode, score = episode + 1, 0.0
            picture = captioned(env.picture(), f"episode {episode}   score {score:g}")
            for each in films:
                each.append_data(picture)

        return play(policy, env, episodes, seed, on_step)


@contextmanager
def _writer(path: str, fps: float) -> Iterator[Any]:
    options: dict[str, Any] = {"fps": fps}
    if path.endswith(".mp4"):
        options |= {"codec": "libx264", "quality": 8, "macro_block_size": 2, "pixelformat": "yuv420p"}
    else:
        options = {"duration": 1000 / fps, "loop": 0}
    with imageio.get_writer(path, **options) as writer:
        yield writer


def captioned(picture: np.ndarray, text: str) -> np.ndarray:
    """A picture uint8 [H, W, 3] with a line of text below: uint8 [H + 20, W, 3], sides even as films need them."""
    height, width = picture.shape[:2]
    image = Image.new("RGB", (width + width % 2, height + height % 2 + _BAR))
    image.paste(Image.fromarray(np.ascontiguousarray(picture)), (0, 0))
    ImageDraw.Draw(image).text((4, image.height - _BAR + 3), text, fill="white", font=ImageFont.load_default(12))
    return np.asarray(image)
