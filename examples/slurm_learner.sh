#!/bin/bash
#SBATCH --job-name=learner --cpus-per-task=16 --gpus=1 --mem=32G --time=04:00:00
#SBATCH --requeue --open-mode=append --signal=B:USR1@120

actors="$(sbatch --parsable examples/slurm_actors.sh "$(hostname):8686")" || exit 1 # each start of the learner has its own
trap 'scancel "$actors"' EXIT
trap 'kill -USR1 $!' USR1            # at the time limit
trap 'kill -TERM $!' TERM            # scancel, preemption
seed_rl learner --gin_file=atari/vtrace_deep_accelerator --logdir=runs/deep --accelerator=gpu --num_actors=64 \
    --server_address=0.0.0.0:8686 --tls_cert=cert.pem --tls_key=key.pem --token_file=token &
wait $!; code=$?
while kill -0 $! 2>/dev/null; do wait $!; code=$?; done
[[ $code != 138 ]] || scontrol requeue "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}"
exit $code
