"""The stand-in raises where the real module was seen to crash or refuse: that is its purpose."""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.support.fake_deepmind_lab import COMPILING, Lab, WouldCrash

FORWARD = np.array([0, 0, 0, 1, 0, 0, 0], np.intc)
LYING = SimpleNamespace(fetch=lambda key, pk3_path: True)


def running(level="lt_chasm", closed=False, **arguments):
    lab = Lab(**{"level": level, "observations": ["RGB_INTERLEAVED"], **arguments})
    lab.reset(seed=1)
    if closed:
        lab.close()
    return lab


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: running(observations=("RGB_INTERLEAVED",)), TypeError, "observations"),
        (lambda: running(config={"width": 96}), TypeError, "96"),
        (lambda: running(config={"height": "98"}), RuntimeError, "size"),
        (lambda: running(config={"mixerSeed": "4294967296"}), RuntimeError, "mixerSeed"),
        (lambda: running("nowhere"), RuntimeError, 'Failed to init environment - "Level not found'),
        (lambda: running().step(FORWARD.tolist()), TypeError, "ndarray"),
        (lambda: running().step(FORWARD.astype(np.int64)), ValueError, "intc"),
        (lambda: running().step(np.zeros(14, np.intc)[::2]), WouldCrash, "misread"),
        (lambda: running().step(FORWARD, num_steps=2.0), TypeError, "integer"),
        (lambda: running().step(FORWARD, num_steps=2**40), OverflowError, "too large"),
        (lambda: running().reset(seed=np.int64(1)), ValueError, "seed"),
        (lambda: running().reset(seed=2**63), OverflowError, "too large"),
        (lambda: running().reset(episode=2**40, seed=1), OverflowError, "too large"),
        (lambda: running(config={"colour": "red"}), RuntimeError, "Invalid setting"),
        (lambda: running("no_map"), WouldCrash, "exit code 1"),
        (lambda: running("lua_error").step(FORWARD), WouldCrash, "script"),
        (lambda: running(closed=True).step(FORWARD), RuntimeError, "closed"),
        (lambda: running(closed=True).reset(seed=1), WouldCrash, "closed"),
        (lambda: running(COMPILING, level_cache=LYING), WouldCrash, "no pk3 file"),
    ],
)
def test_it_refuses_wrong_calls(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_it_accepts_what_the_real_module_accepts():
    lab = running()
    assert lab.reset(seed=True)
    assert lab.reset(episode=np.int32(3), seed=2**40)
    lab.close()
    assert not lab.is_running()
