# shellcheck shell=bash
# Sourced by the test scripts of the analytics programs, with `program` set.
# shellcheck source=SCRIPTDIR/complain.sh
. "$(dirname "${BASH_SOURCE[0]}")/complain.sh"
settings=(--staging 2M --prefetch-memory 2M --write-memory 2M --cache 256K --rpc-timeout 120s)

# verified COUNT ARGUMENT...: COUNT variants run, and the check finds all of them right.
verified() {
  local wanted=$1
  shift
  said=$(timeout 300 "$program" "$@" --check --json --runs 1 "${settings[@]}" 2>&1)
  local status=$?
  [[ $said == *"no device to run on"* ]] && [ "${failures:-0}" -eq 0 ] && exit 77
  [ "$status" -eq 0 ] || complain "$*: status $status: $said"
  [ "$(grep -c '"verified": true' <<<"$said")" -eq "$wanted" ] || complain "$*: $said"
}

# refuses TEXT ARGUMENT...: the program fails and says that text.
refuses() {
  local wanted=$1
  shift
  said=$(timeout 300 "$program" "$@" 2>&1)
  local status=$?
  # 124 and more: it was stopped, or crashed.
  { [ "$status" -ne 0 ] && [ "$status" -lt 124 ]; } || complain "$*: status $status: $said"
  [[ $said == *"$wanted"* ]] || complain "$*: $said"
}
