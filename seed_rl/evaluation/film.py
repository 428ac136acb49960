"""Films episodes of a policy with the score in the picture, as mp4 and gif, on machines without a display."""

from __future__ import annotations

import fcntl
import functools
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any

import imageio_ffmpeg
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from seed_rl.envs.base import Watchable
from seed_rl.envs.elsewhere import watch_elsewhere
from seed_rl.evaluation.episodes import Played, play
from seed_rl.evaluation.policy import Policy, experiment_of, load_policy
from seed_rl.system.files import complete_or_absent
from seed_rl.types import EnvOutput

_HOLD_SECONDS = 1.0
"""How long the last picture of an episode is shown."""
_SMALLEST = 320
"""Pixels of the shorter side: smaller pictures are enlarged by a whole number."""
_LARGEST = 1920
"""Pixels of the longer side, beyond which no picture is enlarged."""
_MP4 = [
    *("-c:v", "libx264", "-crf", "18", "-preset", "veryfast", "-threads", "1", "-pix_fmt", "yuv420p"),
    *("-movflags", "+faststart", "-f", "mp4"),
]
# A gif gets one palette for all pictures, known after the last: one for each takes seven times the bytes.
_PALETTE = ["-filter_complex", "split[all][seen];[seen]palettegen[colours]", "-map", "[colours]", "-f", "apng"]
_LOSSLESS = ["-map", "[all]", "-c:v", "flashsv", "-f", "matroska"]
_GIF = ["-filter_complex", "paletteuse=dither=none", "-loop", "0", "-f", "gif"]

_PIPE_BYTES = 2**20
"""Of a pipe to ffmpeg, the most that Linux grants: whole pictures wait there, rather than the environment."""

_Append = Callable[[np.ndarray], None]
_font = functools.cache(ImageFont.load_default)


class Limits:
    """A `Stop` at which a film is complete, wherever the episode is; by default that of a film made beside a run."""

    def __init__(self, steps: int = 30_000, seconds: float = 600.0, size: int = 256 << 20):
        """
        Args:
          steps: of the environment; the longest game of Atari has fewer.
          seconds: from now on.
          size: bytes of all files, including those made in between.
        """
        self._steps, self._end, self._size = steps, time.monotonic() + seconds, size
        self.files: list[str] = []
        """Those that grow."""

    def is_set(self) -> bool:
        """Whether a limit is reached; asked before each step."""
        self._steps -= 1
        size = sum(os.path.getsize(file) for file in self.files if os.path.exists(file))
        return self._steps < 0 or time.monotonic() >= self._end or size >= self._size


def film(
    policy: Policy,
    env: Watchable,
    episodes: int,
    seed: int,
    paths: Sequence[str],
    fps: float,
    limits: Limits | None = None,
    max_steps: int | None = None,
) -> Played:
    """Plays episodes, one after the other, into films.

    A picture is taken before each action. After the last action of an episode the environment already shows the next
    one, so the last picture is held for a second, with the final score.

    Args:
      policy: acts.
      env: the environment to film.
      episodes: number to play.
      seed: of the environment.
      paths: files to write, which appear once they are complete; the extension (.mp4, .gif) chooses the format.
      fps: pictures (agent steps) per second.
      limits: at which it ends, perhaps amid an episode.
      max_steps: as for `episodes.play`.

    Raises:
      ValueError: another extension.
      OSError: a file can't be written.
    """
    hold = max(1, round(fps * _HOLD_SECONDS))
    films: list[_Append] = []
    picture: np.ndarray | None = None
    episode, score = 1, 0.0
    with ExitStack() as open_films:

        def append(shown: np.ndarray, times: int) -> None:
            frame = captioned(shown, f"episode {episode}   score {round(score, 2):,.12g}")
            if not films:  # the first picture determines the size
                growing = limits.files if limits else []
                films.extend(open_films.enter_context(_film(path, fps, frame.shape, growing)) for path in paths)
            for append_frame in films:
                for _ in range(times):
                    append_frame(frame)

        def see(output: EnvOutput) -> None:
            nonlocal picture, episode, score
            score += float(output.reward[0])
            if picture is not None and output.done[0]:
                append(picture, hold)
                episode, score = episode + 1, 0.0
            if episode <= episodes:
                picture = enlarged(env.picture(output.observation))
                append(picture, 1)

        return play(policy, env, episodes, seed, see, limits, max_steps)


def film_run(
    logdir: str,
    *paths: str,
    checkpoint: str | None = None,
    episodes: int = 1,
    greedy: bool = False,
    seed: int = 1,
    fps: float = 15.0,
    limits: Limits | None = None,
    max_steps: int | None = None,
) -> Played:
    """Films episodes with the policy of a run; `seed_rl play`.

    Args:
      logdir: of the run.
      paths: as for `film`.
      checkpoint: path of one of the run's; default: the newest.
      episodes: number to play.
      greedy: without exploration.
      seed: of the environment and of sampled actions.
      fps: pictures (agent steps) per second.
      limits: as for `film`.
      max_steps: as for `episodes.play`.

    Raises:
      NoPolicy: the run has no usable policy.
      ValueError: a path ends neither in .mp4 nor in .gif.
      OSError: a file can't be written.
    """
    policy = load_policy(logdir, checkpoint, greedy, seed)
    with closing(watch_elsewhere(experiment_of(logdir).env)) as env:
        return film(policy, env, episodes, seed, paths, fps, limits, max_steps)


def enlarged(picture: np.ndarray) -> np.ndarray:
    """Repeats pixels of uint8 [H, W, 3] until the shorter side has 320, as long as the longer one fits 1,920."""
    short, long = sorted(picture.shape[:2])
    factor = max(1, min(-(-_SMALLEST // short), _LARGEST // long))
    return picture.repeat(factor, axis=1).repeat(factor, axis=0)  # few single pixels first, then whole rows


def captioned(picture: np.ndarray, text: str) -> np.ndarray:
    """A picture uint8 [H, W, 3] above a black bar with a line of text, whose font size depends on the picture's.

    Returns:
      uint8 [H + bar, W, 3], with even sides, as video codecs require.
    """
    height, width = picture.shape[:2]
    size = max(12, min(height, width) // 20)
    frame = np.zeros((height + height % 2 + 2 * size, width + width % 2, 3), np.uint8)
    frame[:height, :width] = picture
    frame[-2 * size :] = _caption(text, frame.shape[1], size)
    return frame


@functools.lru_cache(maxsize=1)
def _caption(text: str, width: int, size: int) -> np.ndarray:
    image = Image.new("RGB", (width, 2 * size))
    ImageDraw.Draw(image).text((size // 2, size), text, fill="white", font=_font(size), anchor="lm")
    return np.asarray(image)


@contextmanager
def _film(path: str, fps: float, shape: Sequence[int], growing: list[str]) -> Iterator[_Append]:
    """Opens a film of pictures of one shape, which appears under its name once complete; `growing` gets its file."""
    ending = os.path.splitext(path)[1]
    if ending not in (".mp4", ".gif"):
        raise ValueError(f"films end in .mp4 or .gif, got {path}")
    pictures = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{shape[1]}x{shape[0]}", "-r", f"{fps}", "-i", "-"]
    with complete_or_absent(path) as file, tempfile.TemporaryDirectory() as scratch:
        palette, whole = os.path.join(scratch, "palette"), os.path.join(scratch, "whole")
        first = [*_MP4, file.name] if ending == ".mp4" else [*_PALETTE, palette, *_LOSSLESS, whole]
        with _ffmpeg(path, [*pictures, *first]) as append:
            growing.append(first[-1])
            yield append
        if ending == ".gif":
            with _ffmpeg(path, ["-i", whole, "-i", palette, *_GIF, file.name]):
                pass


@contextmanager
def _ffmpeg(path: str, arguments: Sequence[str]) -> Iterator[_Append]:
    """Runs ffmpeg, which takes pictures until the end of the context, and waits for its success.

    It is run directly and its exit code checked: imageio's writers either miss a full disk or keep all pictures of a
    gif in memory.
    """
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-y", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,  # Ctrl-C is this process's to handle
        )
        pipe: Any = process.stdin
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

        def finish() -> None:
            with suppress(BrokenPipeError):
                pipe.close()
            if process.wait():
                errors.seek(0)
                line = errors.read().decode(errors="replace").strip().split("\n")[-1]
                raise OSError(f"{path}: ffmpeg {f'says: {line}' if line else f'ended with {process.returncode}'}")

        def append(picture: np.ndarray) -> None:
            try:
                pipe.write(picture.data)
            except BrokenPipeError:  # ffmpeg has ended
                finish()

        try:
            yield append
            finish()
        finally:
            process.kill()
            process.wait()
