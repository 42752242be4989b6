#!/bin/sh
# promtool's opinion of the alert rules, and of metrics that were saved to a file:
#
#   promtool.sh [METRICS]
#
# promtool reads the older text format only, so the metrics are rewritten on the way: there
# `_total` and `_info` are part of a family's name, and units are unknown. The grammar of
# OpenMetrics is checked by a test of the crate api.
set -eu
metrics=${1:+$(realpath "$1")}
cd "$(dirname "$0")/.."

if ! command -v promtool >/dev/null; then
    echo "promtool is not installed (Debian: prometheus): the alert rules were not checked"
    exit 0
fi
promtool check rules contrib/alerts.yml
[ -n "$metrics" ] || exit 0
awk '
    /^# (UNIT|EOF)/ { next }
    /^# TYPE/ {
        suffix = $4 == "counter" ? "_total" : $4 == "info" ? "_info" : ""
        print "# TYPE", $3 suffix, $4 == "info" ? "gauge" : $4
        next
    }
    /^# HELP/ { sub($3, $3 suffix) }
    { print }
' "$metrics" | promtool check metrics
echo "metrics: good"
