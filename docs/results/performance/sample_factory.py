#!/usr/bin/env python3
"""APPO on Pong as Sample Factory trains it, with the network, environments and batches of `atari/vtrace_pong`.

    pip install sample-factory==2.1.1 torch "gymnasium[atari]" opencv-python-headless
    python docs/results/performance/sample_factory.py --seconds=60

ale-py 0.8 brings no games: copy `ale_py/roms/pong.bin` of a newer one. Prints the environment frames per second after
the first `--settle` seconds, the mean of what it reports of intervals of ten seconds.
"""

import argparse
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time

FLAGS = shlex.split("""
--algo=APPO --env=atari_pong --experiment=pong --device=cpu --async_rl=True --rollout=20 --batch_size=160
--num_batches_per_epoch=1 --num_epochs=1 --gamma=0.99 --normalize_returns=False --num_workers=2
--num_envs_per_worker=32 --worker_num_splits=2 --use_rnn=False --encoder_conv_architecture=convnet_atari
--encoder_conv_mlp_layers 512 --decorrelate_envs_on_one_worker=False
""")
REPORT = re.compile(r"Fps is \(10 sec: ([0-9.]+)")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--settle", type=float, default=30.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    rates, started = [], 0.0
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "sf_examples.atari.train_atari", *FLAGS, f"--train_dir={directory}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            for rate in (float(rate) for line in process.stdout for rate in REPORT.findall(line)):
                started = started or (time.monotonic() if rate > 0 else 0.0)
                passed = time.monotonic() - started if started else 0.0
                rates += [rate] if passed > arguments.settle + 10 else []  # the last ten seconds, every five
                if passed > arguments.settle + arguments.seconds:
                    process.send_signal(signal.SIGINT)
                    break
            process.communicate()
    print(f"{sum(rates) / len(rates):,.0f} frames/s")


if __name__ == "__main__":
    main()
