#!/bin/sh
# Says clearly what is wrong if there is no Rust toolchain that can build this.
set -eu
least=1.91.0
if ! version=$(rustc --version 2> /dev/null) || ! command -v cargo > /dev/null; then
    echo "Rust $least or newer is needed, and rustc or cargo is not to be found." >&2
    echo "Debian 12's own is too old; rustup installs one for your user." >&2
    exit 1
fi
version=$(echo "$version" | cut -d' ' -f2)
if [ "$(printf '%s\n%s\n' "$least" "${version%%-*}" | sort -V | head -n 1)" != "$least" ]; then
    echo "Rust $least or newer is needed, this is $version; \`rustup update stable\` brings one." >&2
    exit 1
fi
