#!/bin/sh
# Runs `hnlb lab vm-check` on Debian's own kernel, which has tc flower: the
# queue encoding on net_tap, a driver with rte_flow of its own.
#
#   test.sh HNLB CACHE
set -eu
here=$(cd "$(dirname "$0")" && pwd)
hnlb=$1 cache=$2
share="$cache/share"
mkdir -p "$share"
# Smaller over 9p, as far as that can be done.
objcopy --strip-debug "$hnlb" "$share/hnlb" 2> /dev/null || cp "$hnlb" "$share/hnlb"

# 900 seconds: half a minute on an idle machine, six times as long on a busy one,
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
