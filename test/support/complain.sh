# Sourced by test scripts: a temporary folder, failures that are named and counted, and the end of
# the script.
set -uo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0

complain() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

# The last line of the script: its exit status says whether anything failed.
conclude() {
  echo "$failures failed"
  [ $failures -eq 0 ]
}
