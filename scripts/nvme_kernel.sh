#!/usr/bin/env bash
# nvme_kernel.sh: downloads a kernel package of Debian and unpacks it in build/nvme-kernel, for the
# guest of nvme_qemu_test. It is not installed. Does nothing if it is there.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=build/nvme-kernel
[ ! -e "$folder/boot" ] || exit 0
package=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null |
  sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -1)
if [ -z "$package" ]; then
  echo "setup: apt knows no package linux-image-cloud-amd64, run apt-get update (Debian 12)" >&2
  exit 1
fi
rm -rf "$folder.new"
mkdir -p "$folder.new"
(cd "$folder.new" && apt-get download "$package" && dpkg-deb -x "$package"_*.deb . &&
  rm "$package"_*.deb)
mv "$folder.new" "$folder"
