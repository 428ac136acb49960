# shellcheck shell=bash
# Shared by the scripts that start a run in a cloud.

# shellcheck source=docker/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../common.sh"

check_project() {
  ((${#places[@]} == 0)) || die "there are only flags, got '${places[0]}'"
  need project
  check_form --project "${flags[project]}" '[a-z][-a-z0-9.:]*' "a project's id"
}

# The tag of cloud images: the commit, so that a running job tells which code it runs, and with changes their hash:
# nodes keep an image of the same tag.
commit_tag() {
  local tag root="$docker/.."
  tag="$(git -C "$root" rev-parse --short=12 HEAD 2>/dev/null)" || die "--tag is needed outside a git repository"
  if [[ -n $(git -C "$root" status --porcelain) ]]; then
    tag+="-$(cd -- "$root" && git ls-files --cached --others --exclude-standard -z | xargs -0 sha256sum 2>/dev/null | sha256sum |
      cut -c1-12)"
  fi
  printf '%s' "$tag"
}

# prepare_run LEARNER COMMAND...: checks the flags that every cloud shares, and the commands that starting the run needs.
# Sets the images (LEARNER is cpu, gpu or tpu), the tag, and the flags of the renderer that every cloud shares. The renderer
# checks their values.
prepare_run() {
  local learner="$1"
  shift
  need repository gin_file
  check_form --repository "${flags[repository]}" '[a-z0-9][a-z0-9._:/-]*' 'a registry and a path in lower case'
  flags[gin_file]="${flags[gin_file]%.gin}"
  [[ ${flags[no_build]} == yes ]] || check_experiment "${flags[gin_file]}"
  check_form --suite "${flags[suite]}" '|atari|football|dmlab|mujoco' 'atari, football, dmlab or mujoco'
  check_secrets
  check_command "$@" openssl
  [[ ${flags[no_build]} == yes ]] || check_command docker
  command -v python3 >/dev/null || die "python3 is needed to fill in the templates"
  flags[tag]="${flags[tag]:-$(commit_tag)}"
  choose_images "${flags[suite]:-${flags[gin_file]}}" "$learner"
  render=("--actor_image=$(image_name "$actor_image")" "${gin_params[@]/#/--gin_param=}")
  pass_on name gin_file total_frames actors service_account
}

# pass_on FLAG...: those that have a value, to the renderer.
pass_on() {
  local flag
  for flag in "$@"; do
    [[ -z ${flags[$flag]} ]] || render+=("--$flag=${flags[$flag]}")
  done
}

# push_images IMAGE...: builds and pushes them, unless --no_build is given.
push_images() {
  [[ ${flags[no_build]} == no ]] || return 0
  run gcloud auth configure-docker "${flags[repository]%%/*}" --quiet
  build_images --push "--repository=${flags[repository]}" "--tag=${flags[tag]}" "$@"
}

# run_with_input TEXT COMMAND...: runs it with a text on its standard input, which a dry run prints as well.
run_with_input() {
  local text="$1"
  shift
  if [[ ${flags[dry_run]} == yes ]]; then
    printf "%s <<'EOF'\n%s\nEOF\n" "$(quoted "$@")" "$text"
  else
    printf '%s\n' "$text" | "$@"
  fi
}
