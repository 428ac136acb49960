"""Action masks, which rule out illegal actions by their scores: logits or Q-values.

Shapes: any leading axes (written ...), N values, which are A actions or the values of K choices one after another.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

ILLEGAL = -1e30
"""The score of an illegal action: its probability is exactly zero, and gradients stay finite, unlike with minus
infinity."""


def unpack_bits(packed: Any, width: int) -> tf.Tensor:
    """The lowest `width` bits of integers [...], lowest first, as bool [..., width]."""
    bits = tf.constant([1 << bit for bit in range(width)], tf.int32)
    return tf.cast(packed, tf.int32)[..., tf.newaxis] & bits != 0


def legal_actions(packed: Any, choices: Sequence[int]) -> tf.Tensor:
    """Unpack masks, uint8 [..., ceil(N / 8)] as in `EnvSpec`, to bool [..., N], where N is the sum of `choices`.

    All values of a choice count as legal if none is: in padding, and at the end of an episode, where no action follows.
    """
    bits = unpack_bits(packed, 8)
    flat = tf.reshape(bits, [*bits.shape[:-2], 8 * bits.shape[-2]])[..., : sum(choices)]
    parts = tf.split(flat, list(choices), axis=-1)
    return tf.concat([part | ~tf.reduce_any(part, axis=-1, keepdims=True) for part in parts], axis=-1)


def mask_illegal(scores: tf.Tensor, legal: tf.Tensor | None) -> tf.Tensor:
    """Scores, float [..., N], with `ILLEGAL` and no gradient where `legal` is False; None: all actions are legal.

    Further parameters behind the scores, [..., P] in all, stay as they are.
    """
    if legal is None:
        return scores
    if more := scores.shape[-1] - legal.shape[-1]:
        legal = tf.concat([legal, tf.ones_like(scores[..., -more:], tf.bool)], axis=-1)
    return tf.where(legal, scores, ILLEGAL)


def legal_mean(scores: tf.Tensor, legal: tf.Tensor | None) -> tf.Tensor:
    """The mean score of the legal actions, float [..., 1]; see `mask_illegal`."""
    if legal is None:
        return tf.reduce_mean(scores, axis=-1, keepdims=True)
    count = tf.reduce_sum(tf.cast(legal, scores.dtype), axis=-1, keepdims=True)
    return tf.reduce_sum(tf.where(legal, scores, 0.0), axis=-1, keepdims=True) / count


def is_legal(scores: tf.Tensor) -> tf.Tensor:
    """Whether each action is legal, bool [..., N], given scores from `mask_illegal`."""
    return scores > 0.5 * ILLEGAL
