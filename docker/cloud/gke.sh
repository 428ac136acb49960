#!/usr/bin/env bash
# Usage: docker/cloud/gke.sh [FLAGS]
#
# Starts a run on Google Kubernetes Engine: builds and pushes the images, stores the secrets, and applies the manifests of
# render_kubernetes.py. Started again with the same --name, it replaces the processes, and the run continues.
# Needs docker, gcloud, kubectl and python3.
#
#   --project=P           Google Cloud project
#   --location=L          zone or region of the cluster, such as europe-west4
#   --cluster=C           the cluster: an Autopilot one, or one with node pools for the machines requested below
#   --create_cluster      create it first, as an Autopilot cluster, which makes nodes on demand
#   --repository=R        registry of the images, such as europe-west4-docker.pkg.dev/P/images
#   --tag=TAG             of the images; default: the commit
#   --no_build            the images exist already
#
#   --name=N              of the run and of all its objects
#   --gin_file=NAME       experiment, such as atari/vtrace
#   --gin_param=BINDING   a setting, such as "Atari.game='breakout'"; may be repeated
#   --total_frames=N      environment frames; default: the experiment's
#   --suite=S             decides the images: football, dmlab, mujoco (also Box2D) or atari (all others); default: the
#                         experiment's
#   --actors=N            actors, on spot machines
#   --least_actors=N      scale between this number and --actors by their CPU usage
#   --actor_cpu=CORES, --actor_memory=SIZE, --learner_cpu=CORES, --learner_memory=SIZE   defaults: 1, 2Gi, 4, 16Gi
#
#   --accelerator=A       the learner's: none, gpu or tpu; default: gpu
#   --accelerator_type=T  default: nvidia-l4, or tpu-v5-lite-podslice (v5e)
#   --accelerator_count=N GPUs; default: 1
#   --tpu_topology=T      chips of one host: 1x1, 2x2, 2x4 or, for TPUs in three dimensions, 2x2x1; default: 1x1
#   --learner_image=I     instead of this repository's
#   --days=N              after which the learner is ended; default: 7
#   --spot_learner        the learner on a spot machine, too: it continues after each preemption
#
#   --storage_size=SIZE   of the run's volume; default: 50Gi
#   --bucket=B            a Cloud Storage bucket instead: gs://B/runs/NAME; with --service_account=S, a Kubernetes service
#                         account that may write into it (Workload Identity)
#   --namespace=N         default: default
#   --secrets=DIRECTORY   of docker/make_secrets.sh, made if missing; default: docker/secrets
#   --delete              delete the run's processes, secrets and service instead; its volume stays
#   --dry_run             print every command and manifest without running them
set -euo pipefail

# shellcheck source=docker/cloud/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

flags=(
  [project]='' [location]='' [cluster]='' [create_cluster]=no [repository]='' [tag]='' [no_build]=no
  [name]='' [gin_file]='' [total_frames]='' [suite]='' [actors]='' [least_actors]=''
  [actor_cpu]='' [actor_memory]='' [learner_cpu]='' [learner_memory]=''
  [accelerator]=gpu [accelerator_type]='' [accelerator_count]='' [tpu_topology]=1x1 [learner_image]='' [days]='' [spot_learner]=no
  [storage_size]='' [bucket]='' [service_account]='' [namespace]=default [secrets]="$docker/secrets"
  [delete]=no [dry_run]=no
)
read_flags "$@"
check_project
need location cluster name
check_form --location "${flags[location]}" '[a-z]+-[a-z]+[0-9]+(-[a-z])?' 'a region or zone such as europe-west4-a'
for flag in cluster name namespace; do
  check_form "--$flag" "${flags[$flag]}" '[a-z]([-a-z0-9]{0,38}[a-z0-9])?' \
    'at most 40 of a-z, 0-9 and -, beginning with a letter'
done
name="${flags[name]}" secrets="${flags[secrets]}"
kubectl=(kubectl "--namespace=${flags[namespace]}")
connect=(gcloud container clusters get-credentials "${flags[cluster]}"
  "--project=${flags[project]}" "--location=${flags[location]}")

if [[ ${flags[delete]} == yes ]]; then
  check_command gcloud kubectl
  run "${connect[@]}"
  run "${kubectl[@]}" delete --ignore-not-found "horizontalpodautoscaler/$name-actors" "deployment/$name-actors" \
    "job/$name-learner" "service/$name-learner" "secret/$name-learner" "secret/$name-actors"
  exit
fi

case "${flags[accelerator]}" in
  none) prepare_run cpu gcloud kubectl ;;
  gpu | tpu) prepare_run "${flags[accelerator]}" gcloud kubectl ;;
  *) die "--accelerator must be none, gpu or tpu, got '${flags[accelerator]}'" ;;
esac
check_form --bucket "${flags[bucket]}" '|[a-z0-9][a-z0-9._-]+' "a bucket's name without gs://"
count="${flags[accelerator_count]}"
[[ -z $count ]] || check_number --accelerator_count "$count"
case "${flags[accelerator]}" in
  gpu)
    render+=(
      "--learner_device=nvidia.com/gpu=${count:-1}"
      "--learner_node=cloud.google.com/gke-accelerator=${flags[accelerator_type]:-nvidia-l4}"
    )
    ;;
  tpu)
    topology="${flags[tpu_topology]}"
    check_form --tpu_topology "$topology" '1x1|2x2|2x4|2x2x1' \
      '1x1, 2x2, 2x4 or 2x2x1, since a learner uses the chips of one host'
    chips=$((${topology//x/*}))
    [[ -z $count || $count == "$chips" ]] ||
      die "--accelerator_count must be the $chips chips of --tpu_topology=$topology, or left out, got '$count'"
    render+=(
      "--learner_device=google.com/tpu=$chips"
      "--learner_node=cloud.google.com/gke-tpu-accelerator=${flags[accelerator_type]:-tpu-v5-lite-podslice}"
      "--learner_node=cloud.google.com/gke-tpu-topology=$topology"
    )
    ;;
esac
images=("$actor_image")
if [[ -z ${flags[learner_image]} ]]; then
  images+=("$learner_image")
  flags[learner_image]="$(image_name "$learner_image")"
fi
spot=cloud.google.com/gke-spot=true
render+=("--actor_node=$spot" "--actor_taint=$spot")
[[ ${flags[spot_learner]} == no ]] || render+=("--learner_node=$spot" "--learner_taint=$spot")
runs=/runs
if [[ -n ${flags[bucket]} ]]; then
  render+=("--bucket=gs://${flags[bucket]}")
  runs=/home/seed_rl/.cache/seed_rl # the learner's local copy
fi
pass_on namespace learner_image least_actors actor_cpu actor_memory learner_cpu learner_memory storage_size days
# Reports any mistake in the flags before the first change.
manifests="$(python3 "$docker/cloud/render_kubernetes.py" "${render[@]}")"

if [[ ${flags[create_cluster]} == yes ]]; then
  run gcloud container clusters create-auto "${flags[cluster]}" "--project=${flags[project]}" \
    "--location=${flags[location]}"
fi
push_images "${images[@]}"
make_secrets
run "${connect[@]}"
[[ ${flags[namespace]} == default ]] ||
  run_shell "kubectl create namespace ${flags[namespace]} --dry-run=client --output=yaml | kubectl apply --filename=-"
# store NAME FILE...: a secret with these files, new or changed. Their contents go through a pipe.
store() {
  local words=("${kubectl[@]}" create secret generic "$1" --dry-run=client --output=yaml)
  shift
  run_shell "$(quoted "${words[@]}" "${@/#/--from-file=$secrets/}") | $(quoted "${kubectl[@]}" apply --server-side --filename=-)"
}
store "$name-learner" cert.pem key.pem token
store "$name-actors" cert.pem token
# A job can't be changed: the old learner writes a checkpoint and ends, and a new one continues.
run "${kubectl[@]}" delete --ignore-not-found "job/$name-learner"
run_with_input "$manifests" kubectl apply --filename=-

scaling="${kubectl[*]} scale deployment/$name-actors --replicas=N   (up to ${flags[actors]})"
[[ -z ${flags[least_actors]} ]] || scaling="${flags[least_actors]} to ${flags[actors]}, by their CPU usage"
delete="$0 --delete --project=${flags[project]} --location=${flags[location]} --cluster=${flags[cluster]}"
delete+=" --namespace=${flags[namespace]} --name=$name"
say "The run: ${kubectl[*]} logs --follow job/$name-learner
Curves:  ${kubectl[*]} exec job/$name-learner -- tensorboard --logdir=$runs, and
         ${kubectl[*]} port-forward job/$name-learner 6006
Actors:  $scaling; they outlive the run
Delete:  $delete"
