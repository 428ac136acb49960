#!/bin/bash
#SBATCH --job-name=pong
#SBATCH --cpus-per-task=16 --gpus=1 --mem=32G --time=04:00:00
#SBATCH --requeue --open-mode=append
#SBATCH --signal=B:USR1@120     # to this script, two minutes before the end; the script passes it on

trap 'kill -USR1 $!' USR1            # at the time limit
trap 'kill -TERM $!' TERM            # scancel, preemption
seed_rl train --gin_file=atari/vtrace_fast --logdir=runs/pong --accelerator=gpu --num_actors=14 \
    --gin_param=Inference.max_batch_size=256 --gin_param=Experiment.batch_size=256 &
wait $!; code=$?
while kill -0 $! 2>/dev/null; do wait $!; code=$?; done         # a signal ends a wait, too
[[ $code != 138 ]] || scontrol requeue "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}"
exit $code
