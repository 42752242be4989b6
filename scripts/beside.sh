#!/bin/sh
# Runs SECOND, with FIRST beside it at the lowest priority, whose output comes at the end.
# Fails if one of them does.
#
#   beside.sh FIRST SECOND
set -eu
output=$(mktemp)
trap 'rm -f "$output"' EXIT
nice -n 19 sh -c "$1" > "$output" 2>&1 < /dev/null &
beside=$!
trap 'kill "$beside" 2> /dev/null; wait; exit 130' INT TERM
first=0 second=0
sh -c "$2" || second=$?
wait "$beside" || first=$?
cat "$output"
[ "$first" = 0 ] || echo "FAILED (exit status $first): $1" >&2
[ "$second" = 0 ] || echo "FAILED (exit status $second): $2" >&2
[ "$first" = 0 ] && [ "$second" = 0 ]
