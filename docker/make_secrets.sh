#!/usr/bin/env bash
# Usage: docker/make_secrets.sh [FLAGS] DIRECTORY [NAME...]
#
# Makes the secrets with which learner and actors trust each other, in a new directory that only its owner can read:
#   cert.pem   a self-signed certificate: the learner's --tls_cert, the actors' --tls_ca
#   key.pem    its private key: the learner's --tls_key
#   token      a random secret: --token_file of both
#
# NAMEs are the hosts or IP addresses at which actors reach the learner. `learner`, `localhost` and 127.0.0.1 are always
# included; actors that use any other address need --tls_server_name=learner.
#
#   --days=N   validity of the certificate; default: 365
set -euo pipefail

# shellcheck source=docker/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

flags=([days]=365)
read_flags "$@"
((${#places[@]})) || die "name a new directory for the secrets"
directory="${places[0]}"
check_number --days "${flags[days]}"
names="DNS:learner,DNS:localhost,IP:127.0.0.1,IP:::1"
for name in "${places[@]:1}"; do
  if [[ $name =~ ^([0-9]{1,3}\.){3}[0-9]{1,3}$ || $name =~ ^[0-9a-f]*:[0-9a-f:]+$ ]]; then
    names+=",IP:$name"
  else
    check_form "a name" "$name" '[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?' "a host name or an IP address"
    names+=",DNS:$name"
  fi
done
[[ ! -e $directory ]] || die "$directory exists already: its secrets are left alone; remove it, or name another"
command -v openssl >/dev/null || die "openssl is not installed, or not on the PATH"

umask 077
mkdir -p -- "$(dirname -- "$directory")"
made="$(mktemp -d -- "$(dirname -- "$directory")/.secrets.XXXXXX")" # all of them, or none
trap 'rm -rf -- "$made"' EXIT
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -sha256 -days "${flags[days]}" \
  -keyout "$made/key.pem" -out "$made/cert.pem" -config /dev/stdin 2>"$made/log" <<EOF || die "$(<"$made/log")"
[req]
prompt = no
distinguished_name = subject
x509_extensions = extensions
[subject]
commonName = learner
[extensions]
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, digitalSignature, keyCertSign
extendedKeyUsage = serverAuth
subjectAltName = $names
EOF
rm -f -- "$made/log"
openssl rand -hex 32 >"$made/token"
mv -T -- "$made" "$directory"
trap - EXIT
say "Made cert.pem, key.pem and token in $directory"
