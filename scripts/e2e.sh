#!/bin/sh
# The whole lab with a given hnlb, in two lanes: loaded with each encoding in mode nat and
# with one in every other mode, with a few reloads under load, its answers, and
# short floods: fails if any request or check fails or anything is left behind.
#
#   e2e.sh HNLB
set -eu
if [ "$(id -u)" != 0 ]; then
    echo "test-e2e: skipped: network namespaces need root; run it as root or with sudo"
    exit 0
fi
for program in ip ethtool nginx nsd wrk curl h2load ab openssl dig dnsperf ping tracepath traceroute bird keepalived; do
    if ! command -v "$program" > /dev/null; then
        echo "test-e2e: skipped: $program is not installed (make deps installs it)"
        exit 0
    fi
done
# The namespaces of labs that nobody looks after any more: others may have their
# own at the same time.
remains() {
    ip netns list | sed -n 's/^\(hnlb-[^ ]*\).*/\1/p' | sort | while read -r namespace; do
        lab=${namespace#hnlb-}
        state=/run/hnlb-lab/${lab%-*}/state.json
        owner=$(sed -n 's/^ *"pid": \([0-9]*\).*/\1/p' "$state" 2> /dev/null | head -n 1)
        if [ -n "$owner" ] && [ -d "/proc/$owner" ] || grep -qs '"keep": true' "$state"; then
            continue
        fi
        # Unless it has gone meanwhile.
        [ ! -e "/run/netns/$namespace" ] || echo "$namespace"
    done
}
before=$(remains | tr '\n' ' ')
# Labs wait most of their time, and any number can stand side by side: two lanes, of which
# the second shows what it prints when it has ended.
lane_one() {
    "$1" lab demo
    "$1" lab demo --mode gue --encoding xdp
    "$1" lab dns
    "$1" lab dns --xdp
    "$1" lab xdp
    for mode in dsr ipip gue gre; do
        "$1" lab demo --mode "$mode" --encoding mark
    done
    "$1" lab reload --reloads 4
    "$1" lab crash --connections 50
    "$1" lab crash --connections 250 --mode dsr
}
lane_two() {
    "$1" lab flood --seconds 3 --rate 2000
    "$1" lab health --encoding mark
    "$1" lab answers
    "$1" lab http
    "$1" lab http --compare
    "$1" lab https --swaps 5
    "$1" lab http --slow 500 --flood 500 --seconds 5
    "$1" lab kernel --encoding mark
    "$1" lab nf --seconds 2
    "$1" lab nf --attach memif --seconds 1
    "$1" lab nf --attach ring --seconds 1
    "$1" lab pair
}
output=$(mktemp)
trap 'rm -f "$output"' EXIT
trap 'kill "$one" "$two" 2> /dev/null; wait; exit 130' INT TERM
# Not as a condition, in which the shell would not stop at a failure.
(lane_two "$1") > "$output" 2>&1 &
two=$!
(lane_one "$1") &
one=$!
first=0 second=0
wait "$one" || first=$?
wait "$two" || second=$?
cat "$output"
if [ "$first" != 0 ] || [ "$second" != 0 ]; then
    echo "test-e2e: FAILED (exit status $first and $second)" >&2
    exit 1
fi
left=
for namespace in $(remains); do
    # What a run left that was killed earlier is cleaned up by the next.
    case " $before" in *" $namespace "*) ;; *) left="$left $namespace" ;; esac
done
if [ -n "$left" ]; then
    echo "test-e2e: FAILED: namespaces are left behind:$left" >&2
    exit 1
fi
