#!/bin/sh
# Fails if there are tests that `make test` does not compile: where a crate's integration
# tests are one program (autotests = false), its tests/main.rs has to name each of them;
# and examples in documentation are not run.
set -eu
cd "$(dirname "$0")/.."
status=0
for main in crates/*/tests/main.rs; do
    tests=$(dirname "$main")
    for file in "$tests"/*.rs "$tests"/*/mod.rs; do
        module=$(basename "${file%/mod.rs}" .rs)
        if [ -e "$file" ] && [ "$module" != main ] && ! grep -qx "mod $module;" "$main"; then
            echo "tests: $file is not compiled: $main does not say \`mod $module;\`" >&2
            status=1
        fi
    done
    for program in "$tests"/*/main.rs; do
        if [ -e "$program" ]; then
            echo "tests: $program is not compiled: name it mod.rs, and say so in $main" >&2
            status=1
        fi
    done
done
# Every other fence opens a block.
examples=$(find crates/*/src -name '*.rs' -exec awk '
    FNR == 1 { inside = 0 }
    /^ *\/\/[\/!] *```/ {
        inside = !inside
        if (inside && $0 !~ /```text$/) print FILENAME ":" FNR
    }' {} +)
for place in $examples; do
    echo "tests: $place: examples in documentation are not run; make it a test, or \`\`\`text" >&2
    status=1
done
exit $status
