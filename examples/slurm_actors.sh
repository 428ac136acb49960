#!/bin/bash
#SBATCH --job-name=actors --array=0-3 --cpus-per-task=16 --mem=16G --time=04:00:00 --requeue

for ((core = 0; core < SLURM_CPUS_PER_TASK; core++)); do
    until seed_rl actor --server_address="$1" --tls_ca=cert.pem --tls_server_name=learner.example --token_file=token; do
        [[ $? =~ ^(1|13[479])$ ]] || break # an environment failed, crashed or ran out of memory
        sleep 5
    done &
done
wait
