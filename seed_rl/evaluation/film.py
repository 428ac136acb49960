"""Films episodes that a policy plays, with the score on the picture: mp4 and gif, on machines without a display."""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import IO, Any

import imageio_ffmpeg
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from seed_rl.envs.pictures import Watchable
from seed_rl.evaluation.episodes import Played, play
from seed_rl.evaluation.policy import Policy
from seed_rl.files import complete_or_absent
from seed_rl.types import EnvOutput

_Append = Callable[[np.ndarray], None]

_HOLD_SECONDS = 1.0
"""How long the end of an episode stays on the screen."""


def film(policy: Policy, env: Watchable, episodes: int, seed: int, paths: Sequence[str], fps: float) -> Played:
    """Plays episodes, one after the other, into films.

    There is a picture before each action. After the last action of an episode an environment shows the next one
    already: so the last picture stays for a second, with the final score.

    Args:
      policy: acts.
      env: what it plays in.
      episodes: number to play.
      seed: of the environment.
      paths: files to write, which appear when they are complete; their endings (.mp4, .gif) say the format.
      fps: pictures (agent steps) per second.

    Raises:
      ValueError: another ending.
      OSError: a file can't be written.
    """
    with ExitStack() as files:
        films = [files.enter_context(_film(path, fps)) for path in paths]
        camera = _Camera(env, episodes, films, hold=max(1, round(fps * _HOLD_SECONDS)))
        return play(policy, env, episodes, seed, camera.see)


class _Camera:
    """Appends pictures to films, and keeps the score that stands below them."""

    def __init__(self, env: Watchable, episodes: int, films: Sequence[_Append], hold: int):
        self._env = env
        self._episodes = episodes
        self._films = films
        self._hold = hold
        self._episode = 1
        self._score = 0.0
        self._picture: np.ndarray | None = None

    def see(self, output: EnvOutput) -> None:
        """Takes what the environment said, when it shows where that led."""
        self._score += float(output.reward[0])
        if self._picture is not None and output.done[0]:
            self._append(self._picture, self._hold)
            self._episode, self._score = self._episode + 1, 0.0
        if self._episode <= self._episodes:
            self._picture = self._env.picture()
            self._append(self._picture, 1)

    def _append(self, picture: np.ndarray, times: int) -> None:
        frame = captioned(picture, f"episode {self._episode}   score {round(self._score, 2):,.12g}")
        for append in self._films:
            for _ in range(times):
                append(frame)


def captioned(picture: np.ndarray, text: str) -> np.ndarray:
    """A picture uint8 [H, W, 3] with a line of text in a black bar below, of a size that goes with the picture's.

    Returns:
      uint8 [H + bar, W, 3], with even sides, as films need them.
    """
    height, width = picture.shape[:2]
    size = max(12, min(height, width) // 20)
    image = Image.new("RGB", (width + width % 2, height + height % 2 + 2 * size))
    image.paste(Image.fromarray(np.ascontiguousarray(picture)), (0, 0))
    ImageDraw.Draw(image).text((size // 2, image.height - size), text, fill="white", font=_font(size), anchor="lm")
    return np.asarray(image)


@functools.cache
def _font(size: int) -> Any:
    return ImageFont.load_default(size)


@contextmanager
def _film(path: str, fps: float) -> Iterator[_Append]:
    """Opens a film that appears under its name once it is complete.

    By a process of ffmpeg, which is asked whether it succeeded: imageio's writers would not notice a full disk, or hold
    all pictures of a gif in memory.
    """
    ending = os.path.splitext(path)[1]
    if ending not in _FORMATS:
        raise ValueError(f"films end in {' or '.join(_FORMATS)}, got {path}")
    with complete_or_absent(path) as file, tempfile.TemporaryFile() as said, ExitStack() as running:
        process: subprocess.Popen[bytes] | None = None

        def append(picture: np.ndarray) -> None:
            nonlocal process
            if process is None:
                write = [*_FORMATS[ending], file.name]
                process = running.enter_context(_ffmpeg(picture.shape, fps, write, said))
            assert process.stdin is not None
            try:
                process.stdin.write(picture.tobytes())
            except BrokenPipeError as error:  # it has ended by itself: what it said is the reason
                process.wait()
                raise OSError(reason(process)) from error

        def reason(ended: subprocess.Popen[bytes]) -> str:
            said.seek(0)
            words = said.read().decode(errors="replace").strip().split("\n")[-1]
            return f"{path}: ffmpeg {f'says: {words}' if words else f'ended with {ended.returncode}'}"

        yield append
        if process is not None:
            process.communicate()
            if process.returncode:
                raise OSError(reason(process))


@contextmanager
def _ffmpeg(
    shape: Sequence[int], fps: float, write: Sequence[str], said: IO[bytes]
) -> Iterator[subprocess.Popen[bytes]]:
    """An ffmpeg that reads pictures of a shape from its standard input; it doesn't outlive the context."""
    height, width = shape[:2]
    read = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{fps}", "-i", "-"]
    process = subprocess.Popen(
        [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-y", *read, *write],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=said,
        start_new_session=True,  # Ctrl-C is this process's to handle
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


_FORMATS = {
    ".mp4": [
        *("-c:v", "libx264", "-crf", "18", "-preset", "veryfast", "-pix_fmt", "yuv420p"),
        *("-movflags", "+faststart", "-f", "mp4"),
    ],
    # Colours of each picture's own: no picture has to wait for the last one.
    ".gif": [
        "-filter_complex",
        "split[a][b];[a]palettegen=stats_mode=single[colours];[b][colours]paletteuse=new=1:dither=none",
        *("-loop", "0", "-f", "gif"),
    ],
}
"""What ffmpeg is told of a film to write, by its ending."""
