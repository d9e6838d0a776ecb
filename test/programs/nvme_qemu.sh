#!/usr/bin/env bash
# nvme_qemu.sh GUEST-PROGRAM GPUFS KERNEL-FOLDER [doctest argument]...: runs the conformance suite
# on the NVMe controller that QEMU emulates. A guest without KVM boots, binds the drive to vfio-pci,
# and runs the program, which is linked statically. Then `gpufs nvme` and `gpufs bench` read the
# drive, with relayed doorbells, too. Exit status 77, with the reason, where something is missing
# that `scripts/setup.sh nvme` installs.
set -euo pipefail
program=$1 gpufs=$2 kernel=$3
shift 3
skip() { echo "skipped: $1 (scripts/setup.sh nvme installs it)"; exit 77; }

command -v qemu-system-x86_64 >/dev/null || skip "there is no qemu-system-x86_64"
busybox=$(command -v busybox) || skip "there is no busybox"
if ldd "$busybox" >/dev/null 2>&1; then skip "busybox is not linked statically"; fi
image=$(find "$kernel/boot" -name 'vmlinuz*' 2>/dev/null | head -1) || true
[ -n "$image" ] || skip "there is no kernel in $kernel"
python=$(command -v python3) || skip "there is no python3"

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/root/{bin,mod,proc,sys,dev,tmp}
cp "$busybox" "$work/root/bin/busybox"
strip -o "$work/root/suite" "$program"
strip -o "$work/root/gpufs" "$gpufs"
ldd "$gpufs" | grep -o '/[^ ]*' | while read -r library; do
  mkdir -p "$work/root$(dirname "$library")"
  cp -L "$library" "$work/root$library"
done
# vfio_virqfd is a module of its own in Linux 6.1 only.
modules=(irqbypass vfio vfio_virqfd vfio_iommu_type1 vfio-pci-core vfio-pci)
for name in "${modules[@]}"; do
  file=$(find "$kernel/lib/modules" \( -name "$name.ko" -o -name "$name.ko.xz" \) | head -1)
  case $file in
    *.xz) xz -dc "$file" >"$work/root/mod/$name.ko" ;;
    *.ko) cp "$file" "$work/root/mod/" ;;
  esac
done
cat >"$work/root/init" <<INIT
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
for m in ${modules[*]}; do [ ! -e /mod/\$m.ko ] || insmod /mod/\$m.ko; done
for d in /sys/bus/pci/devices/*; do
  [ "\$(cat \$d/class)" = 0x010802 ] && nvme=\$(basename \$d)
done
[ ! -e \$d/../\$nvme/driver ] || echo \$nvme > /sys/bus/pci/devices/\$nvme/driver/unbind
echo vfio-pci > /sys/bus/pci/devices/\$nvme/driver_override
echo \$nvme > /sys/bus/pci/drivers_probe
export GPUFS_NVME_DEVICE=\$nvme GPUFS_TEST_SEED=${GPUFS_TEST_SEED:-$RANDOM}
# A drive has one user: the block file comes and goes before the other cases take the drive.
/suite --no-colors=true --test-case='vfio file*'
files=\$?
/suite --no-colors=true --test-case-exclude='vfio file*' $*
suite=\$?
# Small memory: the drive's IOMMU pins what it reaches.
bench() {
  drive=\$1
  shift
  /gpufs bench \$* --file nvme:\$drive:\$nvme --size 512K --runs 1 --no-limits --cache-size 1M \
    --staging-size 1M --prefetch-memory 1M --blocks 2 --threads 64 | tee /tmp/said
  grep -q "by NVMe commands" /tmp/said && grep -q "bytes verified *yes" /tmp/said
}
bench vfio seq && bench vfio rand --level warp && bench vfio rand --access array &&
  bench relay seq && bench relay rand --level warp && /gpufs nvme relay:\$nvme selftest
echo "suite ended with \$((files + suite + \$?))"
poweroff -f
INIT
chmod +x "$work/root/init"
(cd "$work/root" && find . | "$busybox" cpio -o -H newc 2>/dev/null | gzip -1) >"$work/initrd.gz"
"$python" "$here/../nvme/pattern.py" "$work/disk.img"

# One virtual processor: more are slower without KVM. Linux checks its timer against the time that
# passes, and would panic on a busy machine: no_timer_check.
append="console=ttyS0 quiet panic=-1 intel_iommu=on nokaslr mitigations=off tsc=reliable"
append+=" no_timer_check"
timeout -s KILL 300 qemu-system-x86_64 -accel tcg -machine q35 -cpu max -smp 1 -m 512 \
  -nodefaults -no-reboot -display none -serial stdio -kernel "$image" -initrd "$work/initrd.gz" \
  -append "$append" -device intel-iommu \
  -drive "file=$work/disk.img,if=none,id=d,format=raw,cache=unsafe" \
  -device nvme,serial=gpufs-test,drive=d,addr=3 </dev/null | tee "$work/log"
grep -q '^suite ended with 0' "$work/log"
