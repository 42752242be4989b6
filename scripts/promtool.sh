#!/bin/sh
# promtool's opinion of the alert rules. It reads no OpenMetrics, so the metrics are
# checked against the grammar by a test of the crate api instead.
set -eu
cd "$(dirname "$0")/.."

if ! command -v promtool >/dev/null; then
    echo "promtool is not installed (Debian: prometheus): the alert rules were not checked"
    exit 0
fi
promtool check rules contrib/alerts.yml
