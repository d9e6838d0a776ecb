#!/usr/bin/env bash
# nvme_command.sh GPUFS: the command gpufs nvme. It tests a controller, and names what is wrong.
# shellcheck source=SCRIPTDIR/support/complain.sh
. "$(dirname "$0")/../support/complain.sh"
gpufs=$1

# says STATUS TEXT ARGUMENT...: ends with that status, and says that text.
says() {
  local status=$1 wanted=$2 said got
  shift 2
  said=$("$gpufs" nvme "$@" 2>&1)
  got=$?
  [ $got -eq "$status" ] || complain "$*: status $got, not $status: $said"
  [[ $said == *"$wanted"* ]] || complain "$*: said $said, not $wanted"
}
head -c 300000 /dev/urandom >"$folder/disk"
: >"$folder/empty"
says 0 "namespace 1       131072 blocks of 512 bytes" nvme:mem:64M identify
says 0 "self-test         passed" mem:4M selftest
says 0 "self-test         passed" mem:4K selftest --threads 1
says 0 "namespace 1       586 blocks of 512 bytes" "soft:$folder/disk" identify
says 0 "self-test         passed" "nvme:soft:$folder/disk" selftest

says 2 "mem:SIZE, soft:PATH or vfio:ADDRESS is allowed" disk identify
says 2 "mem:SIZE, soft:PATH or vfio:ADDRESS is allowed" disk:4M identify
says 2 "nothing follows the kind" mem: identify
says 2 "mem" mem:1 identify
says 2 "one is possible" "soft:$folder/disk,$folder/disk" identify
says 2 "identify or selftest is" mem:4M format
says 2 "is empty" "soft:$folder/empty" identify
says 2 "--threads" mem:4M identify --threads 0
says 1 "cannot be opened" "soft:$folder/none" identify
says 1 "lspci" vfio:0000:ff:1f.7 identify

[[ $("$gpufs" info) == *"NVMe, software controller"* ]] || complain "info lacks NVMe"
conclude
