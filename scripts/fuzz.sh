#!/bin/sh
# Runs every fuzz target for some seconds (needs cargo-fuzz and nightly Rust).
#
#   fuzz.sh SECONDS
set -eu
cd "$(dirname "$0")/.."
if ! ls fuzz/fuzz_targets/*.rs > /dev/null 2>&1; then
    echo "fuzz: there are no targets in fuzz/fuzz_targets" >&2
    exit 1
fi
if ! cargo fuzz --version > /dev/null 2>&1; then
    echo "fuzz: cargo-fuzz is needed: cargo install cargo-fuzz" >&2
    exit 1
fi
for target in fuzz/fuzz_targets/*.rs; do
    target=$(basename "$target" .rs)
    echo "fuzz: $target for $1 s"
    cargo +nightly fuzz run "$target" -- -max_total_time="$1"
done
