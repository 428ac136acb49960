#!/usr/bin/env bash
# Usage: docker/cloud/vertex.sh [FLAGS]
#
# Starts a run as a custom job of Vertex AI: builds and pushes the images, stores the secrets in Secret Manager, and
# submits the job. Started again with the same --name and --bucket, the run continues. Needs docker, gcloud and python3.
#
#   --project=P            Google Cloud project
#   --region=R             such as europe-west4
#   --repository=R         registry of the images, such as europe-west4-docker.pkg.dev/P/images
#   --tag=TAG              of the images; default: the commit
#   --no_build             the images exist already
#   --bucket=B             Cloud Storage bucket in the same region; the run is kept in gs://B/runs/NAME
#   --service_account=S    e-mail address that the job runs as; it must be allowed to write into the bucket
#
#   --name=N               of the run
#   --gin_file=NAME        experiment, such as atari/vtrace
#   --gin_param=BINDING    a setting, such as "Atari.game='breakout'"; may be repeated
#   --total_frames=N       environment frames; default: the experiment's
#   --suite=S              decides the images: football, dmlab, mujoco (also Box2D) or atari (all others); default: the
#                          experiment's
#   --actors=N             actors, a machine each
#   --actor_machine=T      default: n2-standard-4
#   --learner_machine=T    default: g2-standard-8
#   --accelerator_type=T   the learner's, or none; default: NVIDIA_L4
#   --accelerator_count=N  default: 1
#   --spot                 preemptible machines
#   --days=N               after which the job is ended; default: 7
#   --secrets=DIRECTORY    of docker/make_secrets.sh, made if missing; default: docker/secrets
#   --dry_run              print every command and the job without running them
set -euo pipefail

# shellcheck source=docker/cloud/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

flags=(
  [project]='' [region]='' [repository]='' [tag]='' [no_build]=no [bucket]='' [service_account]=''
  [name]='' [gin_file]='' [total_frames]='' [suite]='' [actors]='' [actor_machine]='' [learner_machine]=''
  [accelerator_type]=NVIDIA_L4 [accelerator_count]='' [spot]=no [days]='' [secrets]="$docker/secrets" [dry_run]=no
)
read_flags "$@"
check_project
need region name
check_form --region "${flags[region]}" '[a-z]+-[a-z]+[0-9]+' 'a region such as europe-west4'
if [[ ${flags[accelerator_type]} == none ]]; then
  prepare_run cpu gcloud
  flags[accelerator_type]=''
else
  prepare_run gpu gcloud
fi
render+=("--learner_image=$(image_name "$learner_image")")
[[ ${flags[spot]} == no ]] || render+=(--spot)
pass_on project bucket actor_machine learner_machine accelerator_type accelerator_count days
# Reports any mistake in the flags before the first change.
job="$(python3 "$docker/cloud/render_vertex.py" "${render[@]}")"

push_images "$learner_image" "$actor_image"
make_secrets
name="${flags[name]}" secrets="${flags[secrets]}"
# store NAME FILE: a new version of a secret, which the job's service account may read.
store() {
  local secret="$name-$1" project="--project=${flags[project]}"
  run_shell "$(quoted gcloud secrets describe "$secret" "$project") >/dev/null 2>&1 || $(quoted gcloud secrets create \
    "$secret" "$project" --replication-policy=automatic)"
  run gcloud secrets versions add "$secret" "$project" "--data-file=$secrets/$2"
  run gcloud secrets add-iam-policy-binding "$secret" "$project" \
    "--member=serviceAccount:${flags[service_account]}" --role=roles/secretmanager.secretAccessor
}
store cert cert.pem
store key key.pem
store token token
run_with_input "$job" gcloud ai custom-jobs create "--project=${flags[project]}" "--region=${flags[region]}" \
  "--display-name=$name" --config=/dev/stdin
