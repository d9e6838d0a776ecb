#!/usr/bin/env bash
# nvme_command.sh GPUFS: the command gpufs nvme. It tests a controller, and names what is wrong.
# shellcheck source=SCRIPTDIR/../support/complain.sh
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

says 2 "soft:PATH, direct:PATH, vfio:ADDRESS or relay:ADDRESS is allowed" disk identify
says 2 "soft:PATH, direct:PATH, vfio:ADDRESS or relay:ADDRESS is allowed" disk:4M identify
says 2 "nothing follows the kind" mem: identify
says 2 "nvme:mem" mem:1 identify
says 2 "drives one controller" "soft:$folder/disk,$folder/disk" identify
says 2 "names the drive 0000:ff:1f.7 twice" vfio:0000:ff:1f.7,0000:ff:1f.7 identify
says 2 "identify or selftest is" mem:4M format
says 2 "is empty" "soft:$folder/empty" identify
says 2 "--threads" mem:4M identify --threads 0
says 2 "--threads=-1: must be from 1 to 64" mem:4M identify --threads -1
says 2 "gpufs: --threads=two: must be a whole number" mem:4M identify --threads two
says 2 "--threads=3: is of software controllers, and vfio:0000:ff:1f.7 is a drive" \
  vfio:0000:ff:1f.7 identify --threads 3
# One page more than there is.
more=$(($(getconf _PHYS_PAGES) + 1)) page=$(getconf PAGESIZE)
if [ $((more * page)) -le $((1 << 40)) ]; then
  for action in identify selftest; do
    says 2 "the memory of this machine" mem:$((more * page)) $action
  done
fi
says 1 "cannot be opened" "soft:$folder/none" identify
says 1 "lspci" vfio:0000:ff:1f.7 identify
says 1 "lspci" relay:0000:ff:1f.7 identify

[[ $("$gpufs" info) == *nvme:mem*nvme:soft*nvme:vfio* ]] || complain "info lacks NVMe"

# bench reads block files, and holds their bytes against the host's.
reads() {
  local said
  said=$("$gpufs" bench --runs 1 --no-limits "$@" 2>&1) || complain "bench $*: $said"
  [[ $said == *verified* ]] || complain "bench $*: said $said"
}
head -c 1M /dev/urandom >"$folder/a"
head -c 700000 /dev/urandom >"$folder/b"
head -c 2M /dev/urandom >"$folder/c"
reads seq --file nvme:mem:4M
reads rand --file "nvme:soft:$folder/disk" --access array
reads seq --file "nvme:soft:$folder/disk" --cold
# Not every file system allows O_DIRECT.
direct=$("$gpufs" bench rand --level warp --file "nvme:direct:$folder/a" --runs 1 \
  --no-limits 2>&1)
[[ $direct == *"bytes verified                 yes"* || $direct == *"does not allow O_DIRECT"* ]] ||
  complain "bench past the page cache: $direct"
reads strided --file "nvme:soft:$folder/a,$folder/b,$folder/c"
# Stripes are the same with all page sizes: smaller than a stripe of 128K, larger, and the largest.
head -c 9M /dev/urandom >"$folder/d"
head -c 9M /dev/urandom >"$folder/e"
for page in 4K 256K 1M 4M; do
  reads seq --file "nvme:soft:$folder/d,$folder/e" --page-size $page --cache-size 64M \
    --staging-size 64M --prefetch-size 0
done
# Members whose blocks hold a stripe, though their bytes do not.
head -c 131000 /dev/urandom >"$folder/f"
head -c 131071 /dev/urandom >"$folder/g"
reads seq --file "nvme:soft:$folder/f,$folder/g"

# tune reads them, too, and spares their members.
said=$(TMPDIR=$folder "$gpufs" tune "nvme:soft:$folder/d,$folder/e" --time 1s \
  --out "$folder/striped" 2>&1) || complain "tune of two members: $said"
said=$("$gpufs" tune "nvme:soft:$folder/disk" --time 1s --out "$folder/out" 2>&1) ||
  complain "tune: $said"
said=$(TMPDIR=$folder "$gpufs" tune nvme:mem:1M --time 1s --out "$folder/mem" 2>&1) ||
  complain "tune nvme:mem: $said"
said=$("$gpufs" tune "nvme:soft:$folder/disk" --time 1s --out "$folder/disk" 2>&1) &&
  complain "tune wrote to a member"
[[ $said == *"never written to"* ]] || complain "tune: said $said"

refuses() {
  local wanted=$1 said
  shift
  said=$("$gpufs" bench seq --runs 1 "$@" 2>&1) && complain "bench $* was not refused"
  [[ $said == *"$wanted"* ]] || complain "bench $*: said $said, not $wanted"
}
refuses "soft:PATH, direct:PATH, vfio:ADDRESS or relay:ADDRESS is allowed" --file nvme:disk
refuses "has a member without a name" --file "nvme:soft:$folder/a,"
refuses "member $folder/none" --file "nvme:soft:$folder/a,$folder/none"
refuses "stripes have" --file "nvme:soft:$folder/a,$folder/disk,$folder/empty"
refuses "at least page_size=1048576" --file "nvme:soft:$folder/a,$folder/b" --page-size 1M \
  --cache-size 64M --prefetch-size 0
refuses "is not one file" --file nvme:mem:4M --cold
refuses "0000:ff:1f.7" --file nvme:vfio:0000:ff:1f.7
refuses "names the drive 0000:ff:1f.7 twice" \
  --file nvme:relay:0000:ff:1f.7,0000:ff:1f.6,0000:ff:1f.7
refuses "0000:ff:1f.7" --file nvme:relay:0000:ff:1f.7
conclude
