#!/usr/bin/env bash
# APPO on Pong as Sample Factory trains it, with the network, environments and batches of `atari/vtrace_pong`.
#
#   pip install sample-factory==2.1.1 torch "gymnasium[atari]" opencv-python-headless
#
# ale-py 0.8 brings no games: copy `ale_py/roms/pong.bin` of a newer one. Prints the environment frames per second of
# the last minute.
set -euo pipefail

python -m sf_examples.atari.train_atari --algo=APPO --env=atari_pong --experiment=pong --train_dir="$(mktemp -d)" \
  --device=cpu --async_rl=True --rollout=20 --batch_size=160 --num_batches_per_epoch=1 --num_epochs=1 --gamma=0.99 \
  --normalize_returns=False --num_workers=2 --num_envs_per_worker=32 --worker_num_splits=2 --use_rnn=False \
  --encoder_conv_architecture=convnet_atari --encoder_conv_mlp_layers 512 --train_for_seconds=45 "$@" 2>&1 |
  grep --only-matching --extended-regexp '60 sec: [0-9.]+' | tail -n 1
