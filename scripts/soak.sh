#!/bin/sh
# The end-to-end run again and again; stops at the first failure.
#
#   soak.sh HNLB MINUTES
set -eu
end=$(($(date +%s) + $2 * 60))
round=0
while [ "$(date +%s)" -lt "$end" ]; do
    round=$((round + 1))
    echo "soak: round $round, $(((end - $(date +%s)) / 60)) minutes left"
    "$(dirname "$0")/e2e.sh" "$1"
done
echo "soak: $round rounds, nothing failed"
