"""Settings check themselves on construction."""

import dataclasses
import math
from typing import Annotated, Any

import pytest

from seed_rl.settings import Count, OneOf, Place, Settings, UnitInterval, Within, whole_number, without_places


@dataclasses.dataclass(frozen=True)
class Sound(Settings):
    volume: UnitInterval = 0.5
    speakers: Count = 2
    delay: Annotated[float, Within(0)] | None = 0.0
    gain: UnitInterval | None = None
    pauses: Count | None = None
    codec: Annotated[str, OneOf("opus", "flac")] = "opus"
    loud: bool = False
    channels: tuple = ()
    tones: tuple[tuple[str, Count], ...] | None = ()
    owner: Any = None


@dataclasses.dataclass(frozen=True)
class Stereo(Sound):
    speakers: int = 4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"volume": 1.5}, r"Sound.volume must be in \[0, 1\], got 1.5"),
        ({"volume": True}, "Sound.volume must be float, got True"),
        ({"speakers": 0}, "Sound.speakers must be at least 1, got 0"),
        ({"speakers": 2.5}, "Sound.speakers must be int, got 2.5"),
        ({"delay": math.inf}, "Sound.delay must be finite, got inf"),
        ({"delay": "1"}, "Sound.delay must be float or None, got '1'"),
        ({"codec": "mp3"}, "Sound.codec must be one of opus, flac, got 'mp3'"),
        ({"tones": ("a",)}, r"Sound.tones\[0\] must be tuple, got 'a'"),
        ({"tones": (("a", 1), ("b",))}, r"Sound.tones\[1\] must be \(str, int\), got \('b',\)"),
        ({"tones": (("a", 1), (2, 3))}, r"Sound.tones\[1\]\[0\] must be str, got 2"),
        ({"tones": (("a", 0),)}, r"Sound.tones\[0\]\[1\] must be at least 1, got 0"),
    ],
)
def test_a_wrong_value_is_named_with_what_was_expected(settings, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        Sound(**settings)


def test_values_of_the_declared_types_pass():
    assert Sound(volume=1, codec="flac", channels=(1, 2), owner=object()).volume == 1


def test_a_whole_number_may_be_written_in_short():
    assert Sound(speakers=3e0, pauses="2k") == Sound(speakers=3, pauses=2000)
    assert Sound(tones=(("a", "2k"),)).tones == (("a", 2000),)
    for text, expected in {"300_000": 300_000, "1e6": 10**6, "300K": 300_000, "1.5M": 1_500_000, "4m": 4e6}.items():
        assert whole_number(text) == expected


def test_bounds_hold_in_subclasses_that_change_a_default():
    assert Stereo().speakers == 4
    with pytest.raises(ValueError, match=r"Stereo.speakers must be at least 1, got 0"):
        Stereo(speakers=0)


def test_places_get_their_defaults_in_every_group():
    @dataclasses.dataclass(frozen=True)
    class Data(Settings):
        pictures: Annotated[str, Place()] = ""
        cache: Annotated[str, Place(is_written=True)] = "none"
        size: Count = 1

    @dataclasses.dataclass(frozen=True)
    class Run(Settings):
        data: Data
        start: Annotated[str, Place()] = ""

    run = Run(Data("/home/me", "/tmp/me", 3), "runs/me")
    assert without_places(run) == Run(Data(size=3))
    assert without_places(run, only_written=True) == Run(Data("/home/me", size=3), "runs/me")
