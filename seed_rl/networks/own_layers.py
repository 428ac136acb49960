"""Custom Keras layers, named by `module:Class`: their interface."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import keras

from seed_rl import own_classes
from seed_rl.own_classes import own_class
from seed_rl.specs import CannotAct


class Torso(Protocol):
    """A Keras layer named by `TrunkConfig.torso = 'module:Class'`.

    The class is called with `units` (the requested number of features, `TrunkConfig.hidden`), `kernel_initializer`,
    `dtype` and `name`.
    """

    def __call__(self, frames: Any) -> Any:
        """Map images [N, H, W, C] to features [N, F] in the layer's compute dtype.

        Images are uint8, and other numbers, such as boards, floats multiplied by 255. With
        `TrunkConfig.observation_norm`, both are in the compute dtype with a standard deviation of 255.
        """


class Fusion(Protocol):
    """A Keras layer named by `TrunkConfig.fusion = 'module:Class'`.

    The class is called with `units` (`TrunkConfig.hidden`), `kernel_initializer`, `dtype` and `name`.
    """

    def __call__(self, features: Mapping[str, Any]) -> Any:
        """Map the features [T, B, F_i] of each observation tensor, by its name, to those of all, [T, B, F]."""


class Core(Protocol):
    """A Keras layer named by `TrunkConfig.core = 'module:Class'`.

    The class is called with `units`, `dtype` and `name`.
    """

    def initial_state(self, batch_size: int) -> Any:
        """The state at the start of an episode, a nest of tensors [batch_size, ...]."""

    def __call__(self, inputs: Any, done: Any, state: Any) -> tuple[Any, Any]:
        """Map inputs [T, B, F] to outputs [T, B, units] and the state after the last step.

        It must reset the state before every step where `done`, bool [T, B], is true.
        """


def make_layer(setting: str, path: str, **arguments: Any) -> Any:
    """Instantiate the Keras layer that `module:Class` names.

    Raises:
      CannotAct: the class can't be imported or instantiated.
    """
    layer = own_class(setting, path, keras.Layer)
    with errors_of(setting, path):
        return layer(**arguments)


def check_features(features: Any, leading: Sequence[int]) -> None:
    """Check the shape of a layer's features.

    Raises:
      ValueError: the shape is not [*leading, F].
    """
    shape = getattr(features, "shape", None)
    if shape is None or len(shape) != len(leading) + 1 or list(shape[:-1]) != list(leading):
        found = f"the shape {list(shape)}" if shape is not None else type(features).__name__
        raise ValueError(f"its features must have the shape {[*leading, 'F']}, got {found}".replace("'F'", "F"))


@contextlib.contextmanager
def errors_of(setting: str, path: str) -> Iterator[None]:
    """Turn errors of a layer of one's own into one line, as `own_classes.errors_of` does, without Keras's additions."""
    filters = keras.config.is_traceback_filtering_enabled()
    keras.config.disable_traceback_filtering()  # so that Keras doesn't add a layer's arguments to its error
    try:
        with own_classes.errors_of(setting, path):
            yield
    except CannotAct as error:
        error._keras_call_info_injected = True  # type: ignore[attr-defined]  # nor do those of the layers around it
        raise
    finally:
        if filters:
            keras.config.enable_traceback_filtering()
