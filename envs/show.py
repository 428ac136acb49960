"""What a network gets from an environment, as text and pictures."""

import contextlib
import itertools
import os

import numpy as np

from seed_rl.envs.base import EnvConfig, legal_actions
from seed_rl.envs.elsewhere import make_elsewhere, probe_spec
from seed_rl.envs.spaces import tensors_of
from seed_rl.envs.vector.steps import outputs, random_policy
from seed_rl.specs import ArraySpec
from seed_rl.types import EnvOutput

_STEPS = 10
_PICTURES = ("frame", "planes", "grid")


def show_observations(config: EnvConfig, directory: str) -> int:
    """Write a reset and ten random steps of one environment, or of a game's first player, into a directory.

    `observations.txt` has the name, kind, shape, dtype, declared and actual range of each part of an observation, and
    every step's action, reward, end, and numbers. Each part with the axes of a picture is a PNG per step, pixel by
    pixel; channels that are not one gray or three colours lie side by side. Frames are single: agents stack them.

    Returns the number of files; raises the errors of `probe_spec`, and OSError if a file can't be written.
    """
    from PIL import Image

    os.makedirs(directory, exist_ok=True)
    spec, actions = probe_spec(config), list[np.ndarray]()
    choose = random_policy(spec)

    def act(output: EnvOutput) -> np.ndarray:
        actions.append(choose(output))
        return actions[-1]

    with contextlib.closing(make_elsewhere(config, config.players)) as env:
        steps = list(itertools.islice(outputs(env, act, seed=0), 1 + _STEPS))
        declared = tensors_of(env.single_observation_space)
    inputs = {name or "observation": part for name, part in spec.network_inputs()}
    values = {name: np.stack([tensors_of(step.observation)[name][0] for step in steps]) for name in inputs}
    lines = [f"{config.title}: what a network gets in {_STEPS} random steps", ""]
    for name, part in inputs.items():
        space, came = declared[name], values[name]
        ranges = f"declared {space.low.min():g} to {space.high.max():g}, was {came.min():g} to {came.max():g}"
        same = ", the same in every step" if (came == came[0]).all() else ""
        lines.append(f"{name}: {part.kind}, {part}, {ranges}{same}")
    lines.append(f"action: {spec.action}{', with a mask' if spec.has_mask else ''}")
    pictures = {name: part for name, part in inputs.items() if part.kind in _PICTURES}
    for number, step in enumerate(steps):
        came_by = f"action {actions[number - 1][0]}, reward {step.reward[0]:g}, " if number else ""
        ends = ["an episode begins"] * bool(step.done[0]) + ["an episode ends"] * bool(step.last[0])
        lines += ["", f"step {number}: {came_by}{', '.join(ends) or 'no end'}"]
        lines += [f"  {name} {_text(values[name][number])}" for name in inputs]
        if (legal := legal_actions(spec, step.observation)) is not None:
            lines.append(f"  legal actions {_text(legal[0].astype(int))}")
        for name, part in pictures.items():
            path = os.path.join(directory, f"{number:02}_{name.replace('/', '+')}.png")
            Image.fromarray(picture_of(part, values[name][number])).save(path)
    with open(os.path.join(directory, "observations.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return 1 + len(steps) * len(pictures)


def _text(values: np.ndarray) -> str:
    text = np.array2string(values, precision=4, threshold=64, edgeitems=4, max_line_width=1_000_000)
    return " ".join(text.split()) if values.ndim < 2 else f"{values.dtype} from {values.min():g} to {values.max():g}"


def picture_of(part: ArraySpec, values: np.ndarray) -> np.ndarray:
    """Draw a tensor as uint8 [H, W] or [H, W, 3]; the lowest number of a grid is black, and the highest white."""
    if part.kind == "planes":
        values = np.where(values[..., np.newaxis] >> np.arange(16) & 1, 255, 0)
    elif part.kind == "grid":
        values = (values.astype(float) - values.min()) * (255 / max(1e-9, float(np.ptp(values))))
    pixels = values.astype(np.uint8)
    if pixels.shape[2] == 3:
        return pixels
    divided = np.pad(pixels, ((0, 0), (0, 1), (0, 0)), constant_values=128)  # a gray line after each channel
    return np.hstack(list(np.moveaxis(divided, -1, 0)))[:, :-1]
