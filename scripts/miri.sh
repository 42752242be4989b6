#!/bin/sh
# The single-threaded tests of the connection table in Miri, which finds
# undefined behaviour. It is a component of the nightly toolchain only.
#
#   miri.sh TARGET_DIRECTORY
set -eu
if ! cargo +nightly miri --version > /dev/null 2>&1; then
    echo "test-miri: skipped: cargo-miri is missing; install it with:"
    echo "  rustup toolchain install nightly --component miri,rust-src"
    exit 0
fi
# The table's seeds are fixed and nothing is read from the machine.
exec cargo +nightly miri test -p conntrack --target-dir "$1"
