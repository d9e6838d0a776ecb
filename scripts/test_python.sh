#!/usr/bin/env bash
# test_python.sh [pytest argument]...: builds a wheel of the Python package, installs it into a
# fresh virtual environment, and runs python/tests. GPUFS_DEVICE=emulated|cuda; default: cuda with
# nvcc, else emulated.
# GPUFS_PREFIX: an installed library to use. Without it a built preset of that device is used if
# there is one; else the library is built, too.
# The last line is 'N passed, N failed'.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
folder=$PWD/build/python
fail() { echo "$1" >&2; echo "0 passed, 1 failed"; exit 1; }
scripts/setup.sh python || fail "packages are missing"
if [ -z "${GPUFS_DEVICE:-}" ]; then
  GPUFS_DEVICE=emulated
  if [ -n "$(scripts/find_nvcc.sh)" ]; then GPUFS_DEVICE=cuda; fi
fi
export GPUFS_DEVICE
rm -rf "$folder"
mkdir -p "$folder"

# Installing builds nothing: it fails if not all of the preset has been built.
if [ -z "${GPUFS_PREFIX:-}" ] && [ -e "build/$GPUFS_DEVICE/libgpufs.a" ] &&
  cmake --install "build/$GPUFS_DEVICE" --prefix "$folder/prefix" >/dev/null 2>&1; then
  export GPUFS_PREFIX=$folder/prefix
  echo "== library of build/$GPUFS_DEVICE"
fi

python3 -m venv "$folder/venv" || fail "no virtual environment"
python=$folder/venv/bin/python
echo "== pip wheel . (device $GPUFS_DEVICE, $("$python" --version))"
pip() {
  "$python" -m pip "$1" --quiet --disable-pip-version-check "${@:2}" >"$folder/$1.log" 2>&1 ||
    { cat "$folder/$1.log" >&2; fail "pip $1 failed"; }
}
pip wheel --no-deps --wheel-dir "$folder/wheels" .
wheel=$(ls "$folder/wheels")
echo "== $wheel"
case $GPUFS_DEVICE:$wheel in
  emulated:gpufs-*+emulated-* | cuda:gpufs-*+cu[1-9]*-*) ;;
  *) fail "$wheel: its version does not say that it is for the device $GPUFS_DEVICE" ;;
esac
pip install "$folder/wheels/$wheel[test]"
"$python" -m pytest -q --junitxml="$folder/pytest.xml" "$@"
status=$?
count() { grep -m1 -o "\b$1=\"[0-9]*\"" "$folder/pytest.xml" 2>/dev/null | grep -o '[0-9]*'; }
tests=$(count tests) failures=$(count failures) errors=$(count errors) skipped=$(count skipped)
failed=$((${failures:-0} + ${errors:-0}))
if [ $status -ne 0 ] && [ "$failed" -eq 0 ]; then failed=1; fi
passed=$((${tests:-0} - failed - ${skipped:-0}))
echo "$((passed > 0 ? passed : 0)) passed, $failed failed"
[ "$failed" -eq 0 ]
