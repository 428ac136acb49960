"""The layers that a trunk consists of, by its settings and the observations."""

from collections.abc import Sequence
from typing import Any

import keras

from seed_rl.networks.config import TrunkConfig, smallest_frame
from seed_rl.networks.recurrent import ResetGRU, ResetLSTM
from seed_rl.networks.torsos import WordTorso, deep_torso, mlp_torso, shallow_torso
from seed_rl.own_classes import build_own_class
from seed_rl.specs import ArraySpec, CannotAct, EnvSpec
from seed_rl.system.devices import has_accelerator

_IMAGES = ("frame", "planes")


def as_image(spec: ArraySpec, config: TrunkConfig) -> bool:
    """Whether the torso of a tensor takes images, from 0 to 255 or with a deviation of 255."""
    return spec.kind in _IMAGES or torso_of(spec, config) not in ("mlp", "words")


def torso_of(spec: ArraySpec, config: TrunkConfig) -> str:
    """The kind of torso for a tensor: the one named in the settings, or `shallow`, `mlp` or `words`."""
    if spec.kind == "words":
        return "words"
    if spec.kind == "numbers" or (spec.kind == "grid" and config.torso == "auto"):
        return "mlp"
    if config.torso == "auto" or (config.torso == "shallow" and spec.kind == "grid"):
        return "shallow" if min(spec.shape[:2]) >= smallest_frame(config.convolutions) else "mlp"
    return config.torso


def check_torso(config: TrunkConfig, env_spec: EnvSpec) -> None:
    """Raise CannotAct if the torso that the settings name can't take the observations."""
    specs = [spec for _, spec in env_spec.network_inputs()]
    images = [spec for spec in specs if spec.kind in _IMAGES] or [spec for spec in specs if spec.kind == "grid"]
    if config.torso not in ("auto", "mlp") and not images:
        raise CannotAct(
            f"the {config.torso} torso takes images, [height, width, channels] or uint16 [height, width] of "
            f"bit planes, got {env_spec}; {type(config).__name__}.torso = 'mlp' takes anything"
        )
    smallest = smallest_frame(config.convolutions)
    if config.torso == "shallow" and any(min(spec.shape[:2]) < smallest for spec in images):
        raise CannotAct(f"the shallow torso needs frames of at least {smallest} x {smallest}, got {env_spec}")


def block_of(spec: ArraySpec, config: TrunkConfig) -> int:
    """The side of the blocks of pixels that the torso takes as channels; 1: it takes frames as they are.

    Four frames are few channels for a CPU's instructions for bfloat16, which multiply by sixteens or more.
    """
    _, size, stride = config.convolutions[0]
    height, width, channels = spec.shape
    divides = not any(each % stride for each in (size, height, width)) and stride * channels % 4 == 0
    on_cpu = config.dtype == "mixed_bfloat16" and not has_accelerator()
    return stride if divides and on_cpu and torso_of(spec, config) == "shallow" else 1


def build_torso(config: TrunkConfig, spec: ArraySpec, name: str, block: int) -> Any:
    """Build the torso for a tensor, which comes in blocks of `block` pixels."""
    kind = torso_of(spec, config)
    if kind == "words":
        return WordTorso(dtype=config.dtype, name=name)
    if kind == "mlp":
        return mlp_torso(config, 1 / 255 if as_image(spec, config) else 1.0, name)
    if kind == "shallow":
        return shallow_torso(config, name, block)
    if kind in ("deep", "spectral"):
        return deep_torso(config, name, spectral=kind == "spectral")
    return build_own(config, "torso", name)


def build_own(config: TrunkConfig, role: str, name: str) -> Any:
    """Instantiate the custom layer that `config` names for a role; raise CannotAct as `build_own_class`."""
    sizes: dict[str, Any] = {"units": config.core_units}
    if role != "core":
        sizes = {"units": config.hidden or 256, "kernel_initializer": config.kernel_initializer}
    setting, path = f"{type(config).__name__}.{role}", getattr(config, role)
    return build_own_class(setting, path, keras.Layer, **sizes, dtype=config.dtype, name=name)


def check_features(config: TrunkConfig, role: str, features: Any, leading: Sequence[int]) -> None:
    """Raise CannotAct unless the features that a layer returned have the shape [*leading, F]."""
    shape = getattr(features, "shape", None)
    if shape is None or len(shape) != len(leading) + 1 or list(shape[:-1]) != list(leading):
        wanted = f"[{', '.join([*map(str, leading), 'F'])}]"
        found = f"the shape {list(shape)}" if shape is not None else type(features).__name__
        raise mistake(config, role, f"its features must have the shape {wanted}, got {found}")


def mistake(config: TrunkConfig, role: str, what: str) -> CannotAct:
    """The error of a custom layer: the setting that names it, and what is wrong."""
    error = CannotAct(f"{type(config).__name__}.{role} = {getattr(config, role)!r}: {what}")
    error._keras_call_info_injected = True  # type: ignore[attr-defined]  # Keras would add a layer's arguments
    return error


def build_core(config: TrunkConfig) -> Any:
    """Build the recurrent core, None if there is none; raise CannotAct for a custom one without an initial state."""
    if config.core == "none":
        return None
    if config.core in ("lstm", "gru"):
        return (ResetLSTM if config.core == "lstm" else ResetGRU)(config.core_units, config.dtype, "core")
    core = build_own(config, "core", "core")
    if not callable(getattr(core, "initial_state", None)):
        raise mistake(config, "core", "it must have a method initial_state(batch_size)")
    return core
