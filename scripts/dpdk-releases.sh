#!/bin/sh
# Compiles crate dpdk, its tests and the C shim against the headers of other DPDK
# releases than the installed one, as Debian and Ubuntu ship them. Nothing is
# installed; needs the network, curl, xz and dpkg-deb.
#
#   dpdk-releases.sh DIRECTORY
set -eu
mkdir -p "$1"
dir=$(cd "$1" && pwd)

# RELEASE: compiles against the package in its distribution.
against() {
    name=$1 mirror=$2 suite=$3 component=$4
    index=$mirror/dists/$suite/$component/binary-amd64/Packages.xz
    file=$(curl -sfm 120 "$index" | xz -dc | awk -v RS= '
        /^Package: libdpdk-dev\n/ && match($0, /\nFilename: [^\n]*/) {
            print substr($0, RSTART + 11, RLENGTH - 11)
        }' | tail -1)
    if [ -z "$file" ]; then
        echo "dpdk-releases: $name has no libdpdk-dev in $index" >&2
        exit 1
    fi
    tree=$dir/$name
    rm -rf "$tree"
    mkdir -p "$tree"
    curl -sfm 300 -o "$tree/headers.deb" "$mirror/$file"
    dpkg-deb -x "$tree/headers.deb" "$tree"
    found=$tree/usr/lib/x86_64-linux-gnu/pkgconfig
    sed -i "s#^prefix=.*#prefix=$tree/usr#" "$found"/libdpdk*.pc
    PKG_CONFIG_PATH=$found cargo check -q -p dpdk --all-targets --locked \
        --target-dir "$dir/target"
    echo "dpdk-releases: compiles against DPDK $(sed -n 's/^Version: //p' "$found/libdpdk.pc")," \
        "$name"
}

against ubuntu-24.04 http://archive.ubuntu.com/ubuntu noble-updates universe
against debian-13 http://deb.debian.org/debian trixie main
