#!/usr/bin/env bash
# Usage: docker/cloud/vertex.sh [FLAGS]
#
# Starts a run as a custom job of Vertex AI: builds and pushes the images, stores the secrets in Secret Manager, and
# submits the job. Started again with the same --name and --bucket, the run continues. Needs docker and gcloud.
#
#   --project=P            Google Cloud project
#   --region=R             such as europe-west4
#   --repository=R         where images go, such as europe-west4-docker.pkg.dev/P/images
#   --tag=TAG              of the images; default: the commit
#   --no_build             the images are there already
#   --bucket=B             Cloud Storage bucket that the run is kept in, in the same region: gs://B/runs/NAME
#   --service_account=S    e-mail address of the one that the job runs as; it must be allowed to write into the bucket
#
#   --name=N               of the run
#   --gin_file=NAME        experiment, such as atari/vtrace
#   --gin_param=BINDING    a setting, such as "Atari.game='breakout'"; may be repeated
#   --total_frames=N       environment frames, if not the experiment's own number
#   --suite=S              what the actors play: football, dmlab or atari (all the others); default: the experiment's
#   --actors=N             actors, a machine each
#   --actor_machine=T      default: n2-standard-4
#   --learner_machine=T    default: g2-standard-8
#   --accelerator_type=T   the learner's, or none; default: NVIDIA_L4
#   --accelerator_count=N  default: 1
#   --spot                 on machines that may be taken away
#   --days=N               after which the job is ended; default: 7
#   --secrets=DIRECTORY    of docker/make_secrets.sh, made if need be; default: docker/secrets
#   --dry_run              print every command and the job, and do nothing
set -euo pipefail

here="$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)"
docker="$(dirname -- "$here")"
# shellcheck source=docker/common.sh
source "$docker/common.sh"

flags=(
  [project]='' [region]='' [repository]='' [tag]='' [no_build]=no [bucket]='' [service_account]=''
  [name]='' [gin_file]='' [total_frames]='' [suite]='' [actors]='' [actor_machine]=n2-standard-4
  [learner_machine]=g2-standard-8 [accelerator_type]=NVIDIA_L4 [accelerator_count]=1 [spot]=no [days]=7
  [secrets]="$docker/secrets" [dry_run]=no
)
read_flags "$@"
((${#places[@]} == 0)) || die "there are only flags, got '${places[0]}'"
need project region repository bucket service_account name gin_file actors
check_form --project "${flags[project]}" '[a-z][-a-z0-9.:]*' "a project's id"
check_form --region "${flags[region]}" '[a-z]+-[a-z]+[0-9]+' 'a region such as europe-west4'
check_form --repository "${flags[repository]}" '[a-z0-9][a-z0-9._:/-]*' 'a registry and a path in lower case'
gin_file="${flags[gin_file]%.gin}"
[[ ${flags[no_build]} == yes ]] || check_experiment "$docker/.." "$gin_file"
suite="${flags[suite]:-$(suite_of "$gin_file")}"
check_form --suite "$suite" 'atari|football|dmlab' 'atari, football or dmlab'
# What the image of football has is the engine's own package.
[[ $suite != football ]] || gin_params=("Football.backend='gfootball'" "${gin_params[@]}")
check_name --name "${flags[name]}"
for flag in actors accelerator_count days; do check_number "--$flag" "${flags[$flag]}"; done
need secrets
check_secrets "${flags[secrets]}"
check_command gcloud openssl
[[ ${flags[no_build]} == yes ]] || check_command docker
command -v python3 >/dev/null || die "python3 is needed to fill in the job"
check_form --total_frames "${flags[total_frames]}" '|[1-9][0-9]{0,14}' 'a whole number from 1 on'
tag="${flags[tag]:-$(commit_tag "$docker/..")}"
name="${flags[name]}"

actor_image="${suite/#atari/actor}" learner_image=gpu
[[ ${flags[accelerator_type]} != none ]] || learner_image=cpu
render=(
  "--learner_image=$(image_name "${flags[repository]}" "$learner_image" "$tag")"
  "--actor_image=$(image_name "${flags[repository]}" "$actor_image" "$tag")"
  "--gin_file=$gin_file" "--accelerator_type=${flags[accelerator_type]/#none/}" "${gin_params[@]/#/--gin_param=}"
)
[[ ${flags[spot]} == no ]] || render+=(--spot)
for flag in name project bucket service_account total_frames actors actor_machine learner_machine \
  accelerator_count days; do
  [[ -z ${flags[$flag]} ]] || render+=("--$flag=${flags[$flag]}")
done
# Before anything is touched: a mistake in the flags is told here.
job="$(python3 "$here/render_vertex.py" "${render[@]}")"

secrets="${flags[secrets]}"
if [[ ${flags[no_build]} == no ]]; then
  run gcloud auth configure-docker "${flags[repository]%%/*}" --quiet
  build=("$docker/build.sh" --push "--repository=${flags[repository]}" "--tag=$tag" "$learner_image" "$actor_image")
  [[ ${flags[dry_run]} == no ]] || build+=(--dry_run)
  "${build[@]}"
fi
[[ -e $secrets ]] || run "$docker/make_secrets.sh" "$secrets"
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
