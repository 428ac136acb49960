"""The search space: ranges and choices of settings."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from seed_rl.experiment import ConfigError
from seed_rl.extras.studies.sweep import split_values

Space: TypeAlias = Mapping[str, BaseDistribution]
"""The distribution of each gin parameter."""

_LOG_RATIO = 10  # ratio of the bounds from which a range is searched on a logarithmic scale
_INTEGER = r"[-+]?\d[\d_]{0,17}"
_NUMBER = rf"({_INTEGER}(?:\.\d+)?(?:[eE][-+]?\d+)?)"


def read_space(searches: Sequence[str]) -> Space:
    """Parse ranges such as `Optimizer.learning_rate=1e-4..1e-2` and choices such as `Catch.rows=5,7`.

    A range whose bounds are whole numbers contains only whole numbers. The scale is logarithmic if both bounds are
    positive and the upper bound is at least ten times the lower one, otherwise linear.

    Raises:
      ConfigError: an entry has another form or repeats a setting.
    """
    found: dict[str, BaseDistribution] = {}
    for search in searches:
        name, _, text = map(str.strip, search.partition("="))
        if name in found:
            raise ConfigError(f"each setting may be given once, got {name} twice")
        bounds, choices = re.fullmatch(rf"{_NUMBER}\s*\.\.\s*{_NUMBER}", text), split_values(text)
        if name and bounds:
            found[name] = _range(search, *bounds.groups())
        elif name and len(choices) > 1 and all(choices):
            found[name] = CategoricalDistribution(list(dict.fromkeys(choices)))
        else:
            raise ConfigError(
                "expected NAME=LOW..HIGH or NAME=VALUE,VALUE,... such as Optimizer.learning_rate=1e-4..1e-2, "
                f"got {search!r}"
            )
    return found


def _range(search: str, *texts: str) -> BaseDistribution:
    is_whole = all(re.fullmatch(_INTEGER, text) for text in texts)
    low, high = map(int if is_whole else float, texts)
    if not low < high < math.inf:
        raise ConfigError(f"expected a range from a lower to a higher finite bound, got {search!r}")
    log = low > 0 and high >= _LOG_RATIO * low
    return IntDistribution(low, high, log) if is_whole else FloatDistribution(low, high, log)


def extremes(space: Space) -> Iterator[str]:
    """Yield gin bindings for each bound and each choice, all of which the experiment must accept."""
    for name, values in space.items():
        is_choice = isinstance(values, CategoricalDistribution)
        yield from (f"{name} = {value}" for value in (values.choices if is_choice else (values.low, values.high)))


def text_of(value: Any, values: BaseDistribution) -> str:
    """Format a value for gin, rounded to about a thousandth of its range."""
    if isinstance(values, FloatDistribution):
        scale = value if values.log else values.high - values.low
        value = min(values.high, max(values.low, round(value, 2 - math.floor(math.log10(scale)))))
    return str(value)
