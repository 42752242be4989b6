#!/bin/sh
# Builds the container of ../Containerfile with buildah from a package of HNLB and a Debian
# that debootstrap makes, so that no registry is needed, and runs it:
#
#   test-container.sh PACKAGE
#
# Needs root, buildah, debootstrap and a Debian mirror (MIRROR).
set -eu
package=$(realpath "$1")
cd "$(dirname "$0")/.."
mirror=${MIRROR:-http://deb.debian.org/debian}
skip() {
    echo "test-container: skipped: $*"
    exit 0
}
[ "$(id -u)" = 0 ] || skip "root is needed"
for program in debootstrap buildah; do
    command -v $program > /dev/null || skip "$program is not installed (apt-get install $program)"
done
work=$(mktemp -d)
chmod 755 "$work"
running=
builder() {
    buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"
}
clean() {
    [ -z "$running" ] || kill "$running" 2> /dev/null || true
    [ -z "$running" ] || wait "$running" 2> /dev/null || true
    builder rm --all > /dev/null 2>&1 || true
    rm -rf --one-file-system "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM
fail() {
    echo "test-container: $*" >&2
    exit 1
}
export BUILDAH_ISOLATION=chroot

debootstrap --variant=minbase bookworm "$work/base" "$mirror" > "$work/log" 2>&1 ||
    { tail -n 5 "$work/log" >&2; fail "debootstrap failed"; }
base=$(builder from scratch)
builder copy -q "$base" "$work/base" / > /dev/null
builder commit -q "$base" localhost/debian > /dev/null
rm -rf --one-file-system "$work/base"
mkdir -p "$work/context/target/deb"
cp "$package" "$work/context/target/deb/"
builder build -q --pull-never --build-arg BASE=localhost/debian -f Containerfile -t hnlb \
    "$work/context" > "$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; fail "it is not built"; }
echo "test-container: built: $(builder inspect --type image --format '{{.OCIv1.Config.Entrypoint}} {{.OCIv1.Config.Cmd}}' hnlb)"

# Entry point and command of the image are what a container runs.
container=$(builder from --pull-never hnlb)
mkdir "$work/etc" "$work/hnlb"
cp scripts/no-device.toml "$work/etc/hnlb.toml"
inside() {
    builder run -v "$work/etc:/etc/hnlb:ro" -v "$work/hnlb:/run/hnlb" "$container" -- "$@"
}
inside /usr/bin/hnlb --version
inside /usr/bin/hnlb run --config /etc/hnlb/hnlb.toml > "$work/log" 2>&1 &
running=$!
tries=0
until inside /usr/bin/hnlb status > "$work/status" 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 60 ] || { cat "$work/log" >&2; fail "it does not start"; }
    sleep 1
done
grep '^service ' "$work/status"
# The process in the container, which has the configuration as its last argument.
pid=$(pgrep -f '^/usr/bin/hnlb run --config /etc/hnlb/hnlb.toml$' | head -n 1)
[ -n "$pid" ] || fail "its process is not found"
kill "$pid"
wait "$running" || fail "it does not end as it should"
running=
echo "test-container: started, asked and ended"
