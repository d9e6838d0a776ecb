#!/usr/bin/env bash
# first_steps.sh OUT.json: takes the first steps of README.md, from a clone to Python, and writes
# the command and the seconds of each to OUT.json. They run in a temporary folder, in a clone of
# this one's last commit, without ccache. The packages of scripts/setup.sh should be there already:
# how long they take is a matter of the network. With CUDACXX=none the device is emulated.
# OUT.json goes to docs/results/first-steps.json, and scripts/results.py makes a table of it.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
[ $# -eq 1 ] || { echo "usage: $0 OUT.json" >&2; exit 2; }
out=$(realpath -m "$1")
export CCACHE_DISABLE=1
HOME=$(mktemp -d)
export HOME
trap 'rm -rf "$HOME"' EXIT
cd "$HOME"
rows=""

# step NAME COMMAND: runs a line of shell, as a user types it.
step() {
  local started ended
  echo "== $1: $2"
  started=$(date +%s%N)
  eval "$2" >"$HOME/said" 2>&1 || { tail -20 "$HOME/said" >&2; exit 1; }
  ended=$(date +%s%N)
  tail -2 "$HOME/said"
  rows+=$(printf '%s{"step": "%s", "command": "%s", "seconds": %d.%02d}' "${rows:+, }" "$1" "$2" \
    $(((ended - started) / 1000000000)) $(((ended - started) / 10000000 % 100)))
}

git clone --quiet "$here" gpufs.git --bare
step "clone" "git clone gpufs.git && cd gpufs"
step "first run" "make demo"
step "install" "make install PREFIX=\$HOME/gpufs-installed"
mkdir "$HOME/mine"
cd "$HOME/mine"
"$HOME/gpufs/scripts/document_block.py" "$HOME/gpufs/README.md" CMakeLists.txt >CMakeLists.txt
"$HOME/gpufs/scripts/document_block.py" "$HOME/gpufs/README.md" readme_count.cu >main.cu
step "own kernel" "cmake -S . -B build -DCMAKE_BUILD_TYPE=Release \
-DCMAKE_PREFIX_PATH=\$HOME/gpufs-installed && cmake --build build && build/mine"
cd "$HOME/gpufs"
step "Python package" "python3 -m venv \$HOME/env && \
GPUFS_PREFIX=\$HOME/gpufs-installed \$HOME/env/bin/pip install ."
"$HOME/gpufs/scripts/document_block.py" README.md records.py >"$HOME/records.py"
head -c 100M /dev/urandom >"$HOME/random.bin"
step "gather" "\$HOME/env/bin/python \$HOME/records.py \$HOME/random.bin"
[ "$(cat "$HOME/said")" = equal ] || { echo "records.py: $(cat "$HOME/said")" >&2; exit 1; }

cat >"$out" <<JSON
{"name": "first steps", "commit": "$(git rev-parse --short=12 HEAD)", "date": "$(date -u +%FT%TZ)",
 "cpu": "$(lscpu | sed -n 's/^Model name: *//p;' | head -1)", "processors": $(nproc),
 "variant": "$("$HOME/gpufs-installed/bin/gpufs" --version | tail -1)",
 "kernel": "$(uname -sr)", "rows": [$rows]}
JSON
