#!/usr/bin/env bash
# mapping_scale.sh PROGRAM: the program of docs/mapping.md gets the right result. Exit status 77: no
# device.
# shellcheck source=SCRIPTDIR/../support/complain.sh
. "$(dirname "$0")/../support/complain.sh"
program=$1
said=$("$program" 2>&1)
status=$?
[ $status -eq 0 ] && [ -z "$said" ] || complain "status $status: $said"
conclude
