#!/bin/bash
#SBATCH --job-name=pong
#SBATCH --cpus-per-task=16 --gpus=1 --mem=32G --time=04:00:00
#SBATCH --requeue --open-mode=append
#SBATCH --signal=B:USR1@120     # to this script, two minutes before the end; the script passes it on

trap 'kill -USR1 $!' USR1 TERM
seed_rl train --gin_file=atari/vtrace_fast --logdir=runs/pong --accelerator=gpu &
wait $!; code=$?
while kill -0 $! 2>/dev/null; do wait $!; code=$?; done         # a signal ends a wait, too
[[ $code != 138 ]] || scontrol requeue "$SLURM_JOB_ID"
exit $code
