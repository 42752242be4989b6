#!/bin/sh
# Boots a Debian or Ubuntu kernel in QEMU, without KVM, on this machine's root file
# system (shared read-only over 9p), runs a command in it and ends.
#
#   boot.sh CACHE SHARE SECONDS COMMAND...
#
# CACHE keeps the unpacked kernel between runs: that of the package VM_KERNEL, of the
# packages in VM_KERNEL_FILES (lines of address and SHA256 sum), or of linux-image-amd64.
# SHARE is a directory that is /run/share in the guest (read-only). The command runs as
# root in /; what it prints comes out here. VM_DEVICES are further words for QEMU, which
# runs in the network namespace VM_NETNS if that is set. Exit status: the command's; 77
# with a reason if this machine cannot do it; 124 if it took longer than SECONDS.
#
# With VM_DISK, an ext4 image, that is the guest's root file system instead, and its
# /sbin/init is run; COMMAND is left out, and a program there writes the exit status to
# /dev/ttyS1. The kernel is emulated, unless VM_ACCEL says otherwise.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
cache=$1 share=$2 seconds=$3
shift 3

skip() {
    echo "vm: skipped: $*" >&2
    exit 77
}

for program in qemu-system-x86_64 busybox dpkg; do
    command -v "$program" > /dev/null || skip "$program is not installed (make deps installs it)"
done
[ "$(uname -m)" = x86_64 ] || skip "this is not an x86-64 machine"

# The kernel: downloaded and unpacked, not installed.
mkdir -p "$cache/kernel"
cache=$(cd "$cache" && pwd)
share=$(cd "$share" && pwd)
if ! ls "$cache"/kernel/boot/vmlinuz-* > /dev/null 2>&1; then
    rm -f "$cache"/*.deb
    if [ -n "${VM_KERNEL_FILES:-}" ]; then
        echo "$VM_KERNEL_FILES" | while read -r address sum; do
            /usr/lib/apt/apt-helper download-file "$address" "$cache/${address##*/}" "SHA256:$sum" || exit 1
        done > "$cache/download.log" 2>&1 ||
            skip "a kernel cannot be downloaded: $(grep '^E:' "$cache/download.log" | tail -n 1)"
    else
        package=${VM_KERNEL:-$(apt-cache depends linux-image-amd64 2> /dev/null |
            sed -n 's/.*Depends: \(linux-image-[^ ]*\).*/\1/p' | head -n 1)}
        [ -n "$package" ] || skip "no linux-image-amd64 in the package lists (apt-get update first)"
        (cd "$cache" && apt-get download "$package") > "$cache/download.log" 2>&1 ||
            skip "$package cannot be downloaded: $(tail -n 1 "$cache/download.log")"
    fi
    # The modules come first: a kernel that is there counts as whole.
    for deb in $(ls -r "$cache"/linux-*.deb); do
        dpkg -x "$deb" "$cache/kernel"
    done
    rm -f "$cache"/*.deb
fi
kernel=$(find "$cache/kernel/boot" -name 'vmlinuz-*' | head -n 1)
release=${kernel##*/vmlinuz-}

# The initramfs: busybox, the modules in the order they need each other, and
# the script that moves over to the shared root.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
mkdir -p "$work/root/bin" "$work/root/modules"
cp "$(command -v busybox)" "$work/root/bin/busybox"
cp "$here/init" "$work/root/init"
chmod 755 "$work/root/init"
while read -r module; do
    case $module in '' | '#'*) continue ;; esac
    # Not a module means built in.
    file=$(find "$cache/kernel/lib/modules/$release/kernel" -name "$module.ko" -o -name "$module.ko.xz")
    [ -n "$file" ] || continue
    cp "$file" "$work/root/modules/"
    case $file in *.xz) busybox unxz "$work/root/modules/$module.ko.xz" ;; esac
    echo "$module" >> "$work/root/modules/order"
done < "$here/modules"
mkdir "$work/share"
(cd "$work/root" && find . | busybox cpio -o -H newc 2> /dev/null) > "$work/initramfs"

# The command, quoted for the guest's shell.
for word in "$@"; do
    printf "'%s' " "$(printf %s "$word" | sed "s/'/'\\\\''/g")"
done > "$work/share/command"

roots="-virtfs local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap"
roots="$roots -virtfs local,path=$share,mount_tag=share,security_model=none,readonly=on"
roots="$roots -virtfs local,path=$work/share,mount_tag=command,security_model=none,readonly=on"
[ -z "${VM_DISK:-}" ] || roots="-drive file=$VM_DISK,if=virtio,format=raw"

# Console on the first serial port, the command's exit status on the second.
set +e
${VM_NETNS:+ip netns exec $VM_NETNS} timeout -k 5 "$seconds" qemu-system-x86_64 \
    ${VM_ACCEL:--accel tcg,thread=multi} -cpu max -smp 2 -m 1536 \
    -nodefaults -no-user-config -display none -no-reboot \
    -kernel "$kernel" -initrd "$work/initramfs" \
    -append "console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable${VM_DISK:+ hnlb.disk}" \
    ${VM_DEVICES:-} \
    -serial stdio -serial "file:$work/status" \
    $roots \
    < /dev/null
qemu=$?
set -e
if [ "$qemu" = 124 ]; then
    echo "vm: not finished within $seconds s" >&2
    exit 124
fi
status=$(tr -dc 0-9 < "$work/status")
if [ -z "$status" ]; then
    echo "vm: the guest ended without an exit status (qemu: $qemu)" >&2
    exit 1
fi
exit "$status"
