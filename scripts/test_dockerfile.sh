#!/usr/bin/env bash
# test_dockerfile.sh [FOLDER]: runs the steps of the Dockerfile in a clean root, without Docker.
# debootstrap makes the root in FOLDER (build/clean-root), of the Debian that the Dockerfile names;
# COPY takes the files that git tracks. Needs to be root, debootstrap and its mirror (MIRROR, by
# default debootstrap's own). Exit status 77: something of that is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$(realpath -m "${1:-build/clean-root}")
release=bookworm
grep -q '^ARG BASE=debian:12$' Dockerfile || { echo "Dockerfile: BASE is not debian:12"; exit 1; }
[ "$(id -u)" -eq 0 ] || { echo "skipped: not root"; exit 77; }
command -v debootstrap >/dev/null || { echo "skipped: no debootstrap"; exit 77; }

rm -rf "$root"
mkdir -p "$root"
# shellcheck disable=SC2086  # an empty mirror is none
debootstrap --variant=minbase $release "$root" ${MIRROR:-} >"$root.log" 2>&1 || {
  tail -n 3 "$root.log"
  echo "skipped: debootstrap gets no Debian"
  exit 77
}
mount --bind /proc "$root/proc"
trap 'umount "$root/proc"' EXIT
cp /etc/resolv.conf "$root/etc/resolv.conf"

directory=/
while read -r word rest; do
  case $word in
    WORKDIR) directory=$rest ;;
    COPY)
      mkdir -p "$root/${rest##* }"
      git ls-files -z | tar --null -T - -cf - | tar -xf - -C "$root/${rest##* }"
      ;;
    RUN)
      echo "== $rest"
      chroot "$root" /bin/bash -c "cd $directory && $rest" </dev/null
      ;;
    CMD)
      # ["gpufs", "info"]
      line=$(tr -d '[]",' <<<"$rest")
      echo "== $line"
      chroot "$root" /bin/bash -c "cd $directory && $line" </dev/null
      ;;
    FROM | ARG | \#* | "") ;;
    *) echo "Dockerfile: $word is no step that this script knows"; exit 1 ;;
  esac
done <Dockerfile
echo "the Dockerfile's steps work in a clean root"
