"""Keras layers of one's own, named by `module:Class`: their contract, and errors with the place in their source."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import traceback
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from seed_rl.specs import CannotAct


class Torso(Protocol):
    """A Keras layer named by `TrunkConfig.torso = 'module:Class'`.

    Its class is called with `units` (features asked for, `TrunkConfig.hidden`), `kernel_initializer`, `dtype` and
    `name`.
    """

    def __call__(self, frames: Any) -> Any:
        """Features [N, F], in the layer's compute dtype, of images [N, H, W, C]: uint8, or with
        `TrunkConfig.observation_norm` in the compute dtype with a standard deviation of 255."""


class Core(Protocol):
    """A Keras layer named by `TrunkConfig.core = 'module:Class'`.

    Its class is called with `units`, `dtype` and `name`.
    """

    def initial_state(self, batch_size: int) -> Any:
        """The state at the start of an episode: nest of tensors [batch_size, ...]."""

    def __call__(self, inputs: Any, done: Any, state: Any) -> tuple[Any, Any]:
        """Outputs [T, B, units] of inputs [T, B, F], and the state after the last step.

        The state is to be reset before every step with `done`, bool [T, B].
        """


def make_layer(setting: str, path: str, **arguments: Any) -> Any:
    """An object of the class that `module:Class` names.

    Raises:
      CannotAct: it can't be imported or made.
    """
    module, _, name = path.partition(":")
    with errors_of(setting, path):
        return getattr(importlib.import_module(module), name)(**arguments)


def check_features(features: Any, leading: Sequence[int]) -> None:
    """
    Raises:
      ValueError: these are not features [*leading, F].
    """
    shape = getattr(features, "shape", None)
    if shape is None or len(shape) != len(leading) + 1 or list(shape[:-1]) != list(leading):
        found = f"the shape {list(shape)}" if shape is not None else type(features).__name__
        raise ValueError(f"its features must have the shape {[*leading, 'F']}, got {found}".replace("'F'", "F"))


@contextlib.contextmanager
def errors_of(setting: str, path: str) -> Iterator[None]:
    """Turns errors of the layer that a setting names into a sentence, if it is `module:Class`.

    Raises:
      CannotAct: with the error, and its line in the layer's module.
    """
    try:
        yield
    except CannotAct:
        raise
    except Exception as error:
        if ":" not in path:
            raise
        # Keras puts a message in bold, between notes of its own.
        bold = re.search(r"\x1b\[1m(.*?)\x1b\[0m", str(error), re.DOTALL)
        message = " ".join((bold[1] if bold else str(error)).split())
        sentence = CannotAct(f"{setting} = {path!r}: {type(error).__name__}: {message}{_place(error, path)}")
        sentence._keras_call_info_injected = True  # type: ignore[attr-defined]  # else layers around it add theirs
        raise sentence from error


def _place(error: Exception, path: str) -> str:
    """The line of the layer's module, in parentheses; empty if the error comes from elsewhere."""
    if isinstance(error, SyntaxError):
        return f" ({error.filename}, line {error.lineno})"
    name = os.sep + path.partition(":")[0].replace(".", os.sep) + ".py"
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith(name)]
    return f" ({lines[-1].filename}, line {lines[-1].lineno})" if lines else ""
