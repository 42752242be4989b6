#!/bin/sh
# The whole lab with a given hnlb, loaded with each encoding in mode nat and
# with one in every other mode: fails if any request fails or anything is left
# behind.
#
#   e2e.sh HNLB
set -eu
if [ "$(id -u)" != 0 ]; then
    echo "test-e2e: skipped: network namespaces need root; run it as root or with sudo"
    exit 0
fi
for program in ip ethtool nginx nsd wrk curl dig dnsperf; do
    if ! command -v "$program" > /dev/null; then
        echo "test-e2e: skipped: $program is not installed (make deps installs it)"
        exit 0
    fi
done
remains() {
    ip netns list | grep '^hnlb-' | sort || :
}
before=$(remains)
"$1" lab demo
for mode in dsr ipip gue gre; do
    "$1" lab demo --mode "$mode" --encoding mark
done
"$1" lab dns
after=$(remains)
if [ "$before" != "$after" ]; then
    echo "test-e2e: FAILED: namespaces are left behind: $after" >&2
    exit 1
fi
