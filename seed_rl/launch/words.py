"""Numbers for people."""

from __future__ import annotations


def short(number: float) -> str:
    """Three digits and a unit: 7.51k, 12.3M."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.3g}{unit}"
    return f"{number:.0f}"


def duration(seconds: float) -> str:
    """1h05m, or 3m20s."""
    minutes, seconds = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{seconds:02d}s"
