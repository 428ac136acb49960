#!/usr/bin/env bash
# Usage: docker/cloud/gke.sh [FLAGS]
#
# Starts a run on Google Kubernetes Engine: builds and pushes the images, stores the secrets, and applies the manifests of
# render_kubernetes.py. Started again with the same --name it replaces the processes, and the run continues.
# Needs docker, gcloud, kubectl and python3.
#
#   --project=P           Google Cloud project
#   --location=L          zone or region of the cluster, such as europe-west4
#   --cluster=C           the cluster: one of the kind Autopilot, or with node pools for what is asked below
#   --create_cluster      make it first, of the kind Autopilot, which makes nodes as they are asked for
#   --repository=R        where images go, such as europe-west4-docker.pkg.dev/P/images
#   --tag=TAG             of the images; default: the commit
#   --no_build            the images are there already
#
#   --name=N              of the run, and of all that is made for it
#   --gin_file=NAME       experiment, such as atari/vtrace
#   --gin_param=BINDING   a setting, such as "Atari.game='breakout'"; may be repeated
#   --total_frames=N      environment frames, if not the experiment's own number
#   --suite=S             what the actors play: football, dmlab or atari (all the others); default: the experiment's
#   --actors=N            actors, on spot machines
#   --least_actors=N      scale between this number and --actors by the CPU that they use
#   --actor_cpu=CORES, --actor_memory=SIZE, --learner_cpu=CORES, --learner_memory=SIZE   defaults: 1, 2Gi, 4, 16Gi
#
#   --accelerator=A       the learner's: none, gpu or tpu; default: gpu
#   --accelerator_type=T  default: nvidia-l4, or tpu-v5-lite-podslice (v5e)
#   --accelerator_count=N GPUs; default: 1
#   --tpu_topology=T      chips of one host: 1x1, 2x2, 2x4 or, of TPUs in three dimensions, 2x2x1; default: 1x1
#   --learner_image=I     instead of this repository's
#   --spot_learner        the learner on a spot machine, too: it continues after each preemption
#
#   --storage_size=SIZE   of the volume that the run is kept on; default: 50Gi
#   --bucket=B            a Cloud Storage bucket instead: gs://B/runs/NAME; with --service_account=S, a Kubernetes service
#                         account that may write into it (Workload Identity)
#   --namespace=N         default: default
#   --secrets=DIRECTORY   of docker/make_secrets.sh, made if need be; default: docker/secrets
#   --delete              take the run's processes, secrets and service away instead; its volume stays
#   --dry_run             print every command and manifest, and do nothing
set -euo pipefail

here="$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)"
docker="$(dirname -- "$here")"
# shellcheck source=docker/common.sh
source "$docker/common.sh"

flags=(
  [project]='' [location]='' [cluster]='' [create_cluster]=no [repository]='' [tag]='' [no_build]=no
  [name]='' [gin_file]='' [total_frames]='' [suite]='' [actors]='' [least_actors]=''
  [actor_cpu]=1 [actor_memory]=2Gi [learner_cpu]=4 [learner_memory]=16Gi
  [accelerator]=gpu [accelerator_type]='' [accelerator_count]='' [tpu_topology]=1x1 [learner_image]='' [spot_learner]=no
  [storage_size]=50Gi [bucket]='' [service_account]='' [namespace]=default [secrets]="$docker/secrets"
  [delete]=no [dry_run]=no
)
read_flags "$@"
((${#places[@]} == 0)) || die "there are only flags, got '${places[0]}'"
need project location cluster name
check_form --project "${flags[project]}" '[a-z][-a-z0-9.:]*' "a project's id"
check_form --location "${flags[location]}" '[a-z]+-[a-z]+[0-9]+(-[a-z])?' 'a region or zone such as europe-west4-a'
check_name --cluster "${flags[cluster]}"
check_name --name "${flags[name]}"
check_name --namespace "${flags[namespace]}"
name="${flags[name]}"
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

need repository gin_file actors
gin_file="${flags[gin_file]%.gin}"
[[ ${flags[no_build]} == yes ]] || check_experiment "$docker/.." "$gin_file"
suite="${flags[suite]:-$(suite_of "$gin_file")}"
check_form --suite "$suite" 'atari|football|dmlab' 'atari, football or dmlab'
# What the image of football has is the engine's own package.
[[ $suite != football ]] || gin_params=("Football.backend='gfootball'" "${gin_params[@]}")
check_form --accelerator "${flags[accelerator]}" 'none|gpu|tpu' 'none, gpu or tpu'
check_form --repository "${flags[repository]}" '[a-z0-9][a-z0-9._:/-]*' 'a registry and a path in lower case'
check_number --actors "${flags[actors]}"
[[ -z ${flags[least_actors]} ]] || check_number --least_actors "${flags[least_actors]}"
check_form --bucket "${flags[bucket]}" '|[a-z0-9][a-z0-9._-]+' "a bucket's name without gs://"
count="${flags[accelerator_count]}"
[[ -z $count ]] || check_number --accelerator_count "$count"
need secrets
check_secrets "${flags[secrets]}"
check_command gcloud kubectl openssl
[[ ${flags[no_build]} == yes ]] || check_command docker
command -v python3 >/dev/null || die "python3 is needed to fill in the manifests"
check_form --total_frames "${flags[total_frames]}" '|[1-9][0-9]{0,14}' 'a whole number from 1 on'
tag="${flags[tag]:-$(commit_tag "$docker/..")}"

actor_image="${suite/#atari/actor}" learner_image=cpu
devices=()
case "${flags[accelerator]}" in
  gpu)
    learner_image=gpu
    devices=(
      "--learner_device=nvidia.com/gpu=${count:-1}"
      "--learner_node=cloud.google.com/gke-accelerator=${flags[accelerator_type]:-nvidia-l4}"
    )
    ;;
  tpu)
    learner_image=tpu topology="${flags[tpu_topology]}"
    check_form --tpu_topology "$topology" '1x1|2x2|2x4|2x2x1' \
      '1x1, 2x2, 2x4 or 2x2x1, since a learner uses the chips of one host'
    chips=$((${topology//x/*}))
    [[ -z $count || $count == "$chips" ]] ||
      die "--accelerator_count must be the $chips chips of --tpu_topology=$topology, or left out, got '$count'"
    devices=(
      "--learner_device=google.com/tpu=$chips"
      "--learner_node=cloud.google.com/gke-tpu-accelerator=${flags[accelerator_type]:-tpu-v5-lite-podslice}"
      "--learner_node=cloud.google.com/gke-tpu-topology=$topology"
    )
    ;;
esac

images=("$actor_image")
learner="${flags[learner_image]}"
if [[ -z $learner ]]; then
  images+=("$learner_image")
  learner="$(image_name "${flags[repository]}" "$learner_image" "$tag")"
fi
spot=cloud.google.com/gke-spot=true
render=(
  "--name=$name" "--namespace=${flags[namespace]}" "--gin_file=$gin_file" "--actors=${flags[actors]}"
  "--learner_image=$learner" "--actor_image=$(image_name "${flags[repository]}" "$actor_image" "$tag")"
  "--actor_node=$spot" "--actor_taint=$spot" "${devices[@]}" "${gin_params[@]/#/--gin_param=}"
)
[[ ${flags[spot_learner]} == no ]] || render+=("--learner_node=$spot" "--learner_taint=$spot")
for flag in total_frames least_actors actor_cpu actor_memory learner_cpu learner_memory storage_size service_account; do
  [[ -z ${flags[$flag]} ]] || render+=("--$flag=${flags[$flag]}")
done
runs=/runs
if [[ -n ${flags[bucket]} ]]; then
  render+=("--bucket=gs://${flags[bucket]}")
  runs=/home/seed_rl/.cache/seed_rl # where the learner works; it copies to the bucket
fi
# Before anything is touched: a mistake in the flags is told here.
manifests="$(python3 "$here/render_kubernetes.py" "${render[@]}")"

secrets="${flags[secrets]}"
if [[ ${flags[create_cluster]} == yes ]]; then
  run gcloud container clusters create-auto "${flags[cluster]}" "--project=${flags[project]}" \
    "--location=${flags[location]}"
fi
if [[ ${flags[no_build]} == no ]]; then
  run gcloud auth configure-docker "${flags[repository]%%/*}" --quiet
  build=("$docker/build.sh" --push "--repository=${flags[repository]}" "--tag=$tag" "${images[@]}")
  [[ ${flags[dry_run]} == no ]] || build+=(--dry_run)
  "${build[@]}"
fi
[[ -e $secrets ]] || run "$docker/make_secrets.sh" "$secrets"
run "${connect[@]}"
[[ ${flags[namespace]} == default ]] ||
  run_shell "kubectl create namespace ${flags[namespace]} --dry-run=client --output=yaml | kubectl apply --filename=-"
# store NAME FILE...: a secret with these files, new or changed. What is in them goes through a pipe.
store() {
  local name="$1" file words=("${kubectl[@]}" create secret generic "$1" --dry-run=client --output=yaml)
  shift
  for file in "$@"; do words+=("--from-file=$secrets/$file"); done
  run_shell "$(quoted "${words[@]}") | $(quoted "${kubectl[@]}" apply --server-side --filename=-)"
}
store "$name-learner" cert.pem key.pem token
store "$name-actors" cert.pem token
# A job can't be changed: the learner writes a checkpoint and ends, and a new one continues.
run "${kubectl[@]}" delete --ignore-not-found "job/$name-learner"
run_with_input "$manifests" kubectl apply --filename=-

scaling="${kubectl[*]} scale deployment/$name-actors --replicas=N   (up to ${flags[actors]})"
[[ -z ${flags[least_actors]} ]] || scaling="${flags[least_actors]} to ${flags[actors]}, by the CPU that they use"
say "The run: ${kubectl[*]} logs --follow job/$name-learner
Curves:  ${kubectl[*]} exec job/$name-learner -- tensorboard --logdir=$runs   and besides
         ${kubectl[*]} port-forward job/$name-learner 6006
Actors:  $scaling; they go on after the run
The end: $0 --delete --project=${flags[project]} --location=${flags[location]} --cluster=${flags[cluster]} --namespace=${flags[namespace]} --name=$name"
