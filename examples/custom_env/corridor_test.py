"""pip install -e . && pytest"""

import os

from corridor import Corridor

from seed_rl.api import Run, check_suite, evaluate_run, load_experiment


def test_it_keeps_the_rules():
    check_suite(Corridor(), steps=200)


def test_it_is_learned(tmp_path):
    config = os.path.join(os.path.dirname(__file__), "corridor.gin")
    with Run(load_experiment(config), str(tmp_path)) as run:
        for _ in run.train():
            pass
    assert evaluate_run(str(tmp_path), episodes=20, greedy=True).mean > 0.8  # walking straight gives 0.92
