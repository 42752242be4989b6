#!/bin/sh
# Runs `hnlb lab vm-check` on Debian's own kernel, which has tc flower: the
# queue encoding on net_tap, a driver with rte_flow of its own. As root, the machine
# has two virtio-net cards whose ends are on a bridge in a network namespace: one with
# receive side scaling, for HNLB, the other for the kernel.
#
#   test.sh HNLB CACHE
set -eu
here=$(cd "$(dirname "$0")" && pwd)
hnlb=$1 cache=$2
share="$cache/share"
mkdir -p "$share"
# Smaller over 9p, as far as that can be done.
objcopy --strip-debug "$hnlb" "$share/hnlb" 2> /dev/null || cp "$hnlb" "$share/hnlb"

inside=
if [ "$(id -u)" = 0 ]; then
    inside=hnlb-vm-$$
    trap 'ip netns del "$inside"' EXIT
    trap 'exit 130' INT TERM
    ip netns add "$inside"
    ip -netns "$inside" -batch - << LINKS
link add br0 type bridge
link set br0 up
tuntap add dpdk mode tap multi_queue
tuntap add kernel mode tap
link set dpdk master br0 up
link set kernel master br0 up
LINKS
    # vhost would hash in the host's kernel, which needs a program of its own for that.
    VM_DEVICES="-netdev tap,id=dpdk,ifname=dpdk,script=no,downscript=no,queues=2,vhost=off"
    VM_DEVICES="$VM_DEVICES -device virtio-net-pci,netdev=dpdk,addr=0x10,mq=on,vectors=6,rss=on"
    VM_DEVICES="$VM_DEVICES,mac=02:71:00:00:00:01"
    VM_DEVICES="$VM_DEVICES -netdev tap,id=kernel,ifname=kernel,script=no,downscript=no"
    VM_DEVICES="$VM_DEVICES -device virtio-net-pci,netdev=kernel,addr=0x11"
    export VM_DEVICES VM_NETNS="$inside"
fi

# 900 seconds: a minute on an idle machine, six times as long on a busy one,
# where this emulated one has a part of a core. Only what hangs takes longer.
log="$cache/console.log"
status=0
"$here/boot.sh" "$cache" "$share" 900 /run/share/hnlb lab vm-check \
    > "$log" 2>&1 || status=$?
case $status in
0)
    grep -aE '^(ok|vm)' "$log"
    echo "test-vm: PASS"
    ;;
77)
    grep -a 'skipped' "$log"
    ;;
*)
    cat "$log"
    echo "test-vm: FAIL (exit status $status)"
    exit 1
    ;;
esac
