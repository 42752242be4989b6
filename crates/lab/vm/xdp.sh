#!/bin/sh
# The tests of the XDP program on Debian's kernels, each booted in QEMU.
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
for series in '6\.1\.0-[0-9]*' '6\.12\.[0-9]*.deb[0-9]*'; do
    package=$(apt-cache search "^linux-image-$series-amd64\$" | sed 's/ .*//' | sort -V | tail -n 1)
    if [ -z "$package" ]; then
        echo "test-xdp-kernels: skipped: no package linux-image-$series-amd64 in the package lists"
        continue
    fi
    echo "test-xdp-kernels: $package"
    status=0
    VM_KERNEL=$package sh "$here/boot.sh" "$cache/$package" "$share" 600 sh /run/share/tests || status=$?
    [ "$status" = 0 ] || [ "$status" = 77 ] || failed=1
done
exit "$failed"
