"""Films of episodes with the score below the picture, as MP4 and GIF, without a display."""

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
from seed_rl.evaluation.policy import Policy, env_of, experiment_of, load_policy
from seed_rl.system.files import StrPath, complete_or_absent
from seed_rl.types import EnvOutput
from seed_rl.weights.policy_sources import opening

_MP4 = [
    *("-c:v", "libx264", "-crf", "18", "-preset", "veryfast", "-threads", "1", "-pix_fmt", "yuv420p"),
    *("-movflags", "+faststart", "-f", "mp4"),
]
# All pictures of a GIF share one palette, known after the last picture: one palette each takes seven times the bytes.
_PALETTE = ["-filter_complex", "split[all][seen];[seen]palettegen[colours]", "-map", "[colours]", "-f", "apng"]
_LOSSLESS = ["-map", "[all]", "-c:v", "flashsv", "-f", "matroska"]
_GIF = ["-filter_complex", "paletteuse=dither=none", "-loop", "0", "-f", "gif"]

_Append = Callable[[np.ndarray], None]
_font = functools.cache(ImageFont.load_default)


class Limits:
    """A `Stop` that bounds a film, even in the middle of an episode. The defaults suit films made during training."""

    def __init__(self, steps: int = 30_000, seconds: float = 600.0, size: int = 256 << 20):
        """The default is more steps than the longest Atari game has; `size` counts the bytes of all files."""
        self._steps, self._end, self._size = steps, time.monotonic() + seconds, size
        self.files: list[str] = []  # paths of the files that are being written

    def is_set(self) -> bool:
        """Return whether a limit is reached; counts the calls, one before each step."""
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
    """Play episodes one after another and film them.

    A picture is taken before each action. After the last action of an episode the environment already shows the next
    episode, so the last picture is held for a second, with the final score. Of a game, the scores of all players are
    shown in the order of rows. There are `fps` pictures (agent steps) per second; the film ends at its limits, even in
    the middle of an episode, and `max_steps` are those of `episodes.play`.

    The paths end in .mp4 or .gif, else it is a ValueError; files appear once they are complete, or it is an OSError.
    """
    hold = max(1, round(fps))  # of the last picture of an episode, for a second
    films: list[_Append] = []
    picture: np.ndarray | None = None
    episode, length, score, was_last = 1, -1, np.zeros(env.num_envs), False
    with ExitStack() as open_films:

        def append(shown: np.ndarray, times: int) -> None:
            scores = " : ".join(f"{round(each, 2):,.12g}" for each in score)
            frame = add_caption(shown, f"episode {episode}   score {scores}")
            if not films:  # the first picture determines the size
                growing = limits.files if limits else []
                films.extend(open_films.enter_context(_film(path, fps, frame.shape, growing)) for path in paths)
            for append_frame in films * times:
                append_frame(frame)

        def see(output: EnvOutput) -> None:
            nonlocal picture, episode, length, score, was_last
            length, score = length + (not was_last), score + output.reward
            was_last = output.last[0]
            if was_last or (length == max_steps and not output.done[0]):  # the environment still shows this episode
                picture = enlarge(env.picture(output.observation))
            if picture is not None and length > 0 and (output.done[0] or was_last or length == max_steps):
                append(picture, hold)
                episode, length, score = episode + 1, 0, np.zeros(env.num_envs)
            if episode <= episodes and not was_last:
                picture = enlarge(env.picture(output.observation))
                append(picture, 1)

        return play(policy, env, episodes * env.num_envs, seed, see, limits, max_steps)


def film_run(
    logdir: StrPath,
    *paths: StrPath,
    checkpoint: StrPath | None = None,
    episodes: int = 1,
    greedy: bool = False,
    seed: int = 1,
    fps: float = 15.0,
    limits: Limits | None = None,
    max_steps: int | None = None,
    gin_params: Sequence[str] = (),
) -> Played:
    """Film episodes of a run's policy, as `seed_rl play` does; for the arguments see `evaluate_run` and `film`."""
    checkpoint = None if checkpoint is None else os.fspath(checkpoint)
    with opening(logdir, checkpoint) as found:
        env_config = env_of(experiment_of(found), gin_params)
        policy = load_policy(found, checkpoint, greedy, seed)
    with closing(watch_elsewhere(env_config)) as env:
        return film(policy, env, episodes, seed, [os.fspath(path) for path in paths], fps, limits, max_steps)


def enlarge(picture: np.ndarray) -> np.ndarray:
    """Repeat pixels of uint8 [H, W, 3] until the shorter side has 320, as long as the longer side fits 1,920."""
    short, long = sorted(picture.shape[:2])
    factor = max(1, min(-(-320 // short), 1920 // long))
    return picture.repeat(factor, axis=1).repeat(factor, axis=0)  # few single pixels first, then whole rows


def add_caption(picture: np.ndarray, text: str) -> np.ndarray:
    """Add a bar with a line of text below a picture uint8 [H, W, 3], and pad it to even sides, which codecs require."""
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
    """Open a film for pictures of one shape; it appears under its name once complete. Adds its files to `growing`."""
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
    """Run ffmpeg, which takes pictures until the end of the context, and wait for its success.

    imageio's writers ignore its exit code, and so miss a full disk; for a GIF, they keep all pictures in memory.
    """
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-y", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,  # only this process handles Ctrl-C
        )
        pipe: Any = process.stdin
        # Linux's maximum: the environment needn't wait while whole pictures are queued.
        with suppress(OSError):  # beyond the user's share of such memory: the film is only written more slowly
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 2**20)

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
