#!/bin/sh
# The tests of the XDP program on the kernels of Ubuntu 22.04 and Debian, each booted in
# QEMU.
#
#   xdp.sh CACHE TEST...
#
# CACHE keeps the kernels between runs; TEST are the test programs. Skipped, with the
# reason, where a kernel can't be had.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cache=$1
shift
share=$(mktemp -d)
trap 'rm -rf "$share"' EXIT
trap 'exit 130' INT TERM
for test in "$@"; do
    cp "$test" "$share/"
    echo "XDP_PACKETS=20000 /run/share/${test##*/} --test-threads 1 --nocapture || exit 1" >> "$share/tests"
done
failed=0

# The tests on the kernel that VM_KERNEL or VM_KERNEL_FILES names, kept as $1.
on() {
    echo "test-xdp-kernels: $1"
    status=0
    sh "$here/boot.sh" "$cache/$1" "$share" 600 sh /run/share/tests || status=$?
    [ "$status" = 0 ] || [ "$status" = 77 ] || failed=1
}

# Ubuntu 22.04 as it was released: its archive keeps these two packages.
pool=http://archive.ubuntu.com/ubuntu/pool/main/l/linux
VM_KERNEL_FILES="$pool/linux-modules-5.15.0-25-generic_5.15.0-25.25_amd64.deb d0ba4087d9e1d497925b3481d3531fba6c2a852855f8019d73b0b1385aa4da1f
$pool/linux-image-unsigned-5.15.0-25-generic_5.15.0-25.25_amd64.deb ac69df20790c48217eb1386ef81fd10d3f20a4ede4dab81cc107c65d29549fa0"
export VM_KERNEL_FILES
on linux-image-5.15.0-25-generic
unset VM_KERNEL_FILES

for series in '6\.1\.0-[0-9]*' '6\.12\.[0-9]*.deb[0-9]*'; do
    package=$(apt-cache search "^linux-image-$series-amd64\$" | sed 's/ .*//' | sort -V | tail -n 1)
    if [ -z "$package" ]; then
        echo "test-xdp-kernels: skipped: no package linux-image-$series-amd64 in the package lists"
        continue
    fi
    export VM_KERNEL="$package"
    on "$package"
done
exit "$failed"
