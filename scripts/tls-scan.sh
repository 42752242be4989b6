#!/bin/sh
# Lets testssl.sh and sslyze look at a service of protocol https in the lab, and fails if one
# of them finds something worse than good. Needs root, and at least one of both:
#   apt-get install testssl.sh bsdextrautils bind9-dnsutils
#   python3 -m venv DIR && DIR/bin/pip install sslyze
# Usage: scripts/tls-scan.sh [HNLB]   HNLB: the program, by default target/release/hnlb
set -eu

hnlb=${1:-target/release/hnlb}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM

cat > "$dir/scan" << 'END'
set -eu
failed=0
if command -v testssl > /dev/null || command -v testssl.sh > /dev/null; then
    testssl=$(command -v testssl || command -v testssl.sh)
    # The service's name is in no DNS; the certificates are the lab's and say nothing of
    # HNLB, so what is found in them does not count.
    "$testssl" --quiet --color 0 --warnings off --nodns min --add-ca "$LAB_CA" \
        --ip "$LAB_ADDRESS" --jsonfile "$DIR/testssl.json" "https://$LAB_NAME:443/" \
        > "$DIR/testssl.txt" 2>&1 || true
    [ -s "$DIR/testssl.json" ] || { cat "$DIR/testssl.txt"; exit 1; }
    python3 - "$DIR/testssl.json" << 'PYTHON' || failed=1
import json, sys

rows = json.load(open(sys.argv[1]))
of_lab = ("cert_", "DNS_CAArecord", "OCSP_stapling", "engine_problem", "scanTime", "optimal_proto")
bad = [
    row for row in rows
    if row["severity"] not in ("OK", "INFO", "DEBUG") and not row["id"].startswith(of_lab)
]
good = sum(row["severity"] in ("OK", "INFO") for row in rows)
print(f"testssl.sh: {good} findings are good or only told, {len(bad)} are worse")
for row in bad:
    print(f"  {row['severity']}: {row['id']}: {row['finding']}")
sys.exit(1 if bad or not good else 0)
PYTHON
else
    echo "testssl.sh: not here"
fi
if command -v sslyze > /dev/null; then
    # Mozilla's "intermediate" configuration asks for nothing but TLS 1.2 and 1.3 with
    # forward secrecy.
    sslyze --mozilla_config=intermediate "$LAB_NAME:443{$LAB_ADDRESS}" > "$DIR/sslyze.txt" 2>&1 \
        || true
    sed -n '/COMPLIANCE AGAINST/,$p' "$DIR/sslyze.txt"
    grep -q 'OK - Compliant\|certificate_path_validation\|certificate' "$DIR/sslyze.txt" || failed=1
else
    echo "sslyze: not here"
fi
exit $failed
END

DIR=$dir exec_path=$PATH
export DIR
"$hnlb" lab https --with "PATH=$exec_path DIR=$dir sh $dir/scan"
