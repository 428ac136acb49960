#!/usr/bin/env bash
# Usage: docker/build.sh [FLAGS] IMAGE...
#
# Builds images and tags them seed_rl-IMAGE:TAG. IMAGE is one of
#   cpu, gpu, tpu                      learner, TensorBoard and every other command
#   actor, atari, football, dmlab      actors without TensorFlow; atari is another name of actor
#   cpu-mujoco, actor-mujoco, ...      the same with MuJoCo and Box2D
#
#   --repository=R   registry to push to, such as europe-west4-docker.pkg.dev/project/images
#   --tag=TAG        default: latest
#   --push           push the images after building them; needs --repository
#   --dry_run        print the commands without running them
set -euo pipefail

# shellcheck source=docker/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

flags=([repository]='' [tag]=latest [push]=no [dry_run]=no)
read_flags "$@"
((${#places[@]})) || die "name an image: cpu, gpu, tpu, actor, atari, football or dmlab"
for image in "${places[@]}"; do
  check_form "an image" "$image" '(cpu|gpu|tpu|actor)(-mujoco)?|atari|football|dmlab' \
    "cpu, gpu, tpu or actor, one of them with -mujoco, atari, football or dmlab"
done
check_form --tag "${flags[tag]}" '[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}' "a tag of letters, digits, dots and dashes"
check_form --repository "${flags[repository]}" '|[a-z0-9][a-z0-9._:/-]*' "a registry and a path in lower case"
[[ ${flags[push]} == no || -n ${flags[repository]} ]] || die "--push needs --repository"
check_command docker

for image in "${places[@]}"; do
  file=Dockerfile
  [[ $image != dmlab ]] || file=dmlab.Dockerfile
  name="$(image_name "$image")"
  command=(env DOCKER_BUILDKIT=1 docker build "--file=$docker/$file" "--target=${image%-mujoco}" "--tag=$name")
  [[ $image != *-mujoco ]] || command+=(--build-arg=EXTRA=mujoco)
  # Pushed images run on the cloud's machines, which may differ from this one.
  [[ ${flags[push]} == no ]] || command+=(--platform=linux/amd64)
  run "${command[@]}" "$(dirname -- "$docker")"
  [[ ${flags[push]} == no ]] || run docker push "$name"
done
