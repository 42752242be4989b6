#!/bin/sh
# Installs a package of HNLB in a clean Debian, runs it there, and removes it:
#
#   test-deb.sh PACKAGE
#
# Needs root, debootstrap and a Debian mirror (MIRROR).
set -eu
package=$(realpath "$1")
configuration=$(realpath "$(dirname "$0")/no-device.toml")
mirror=${MIRROR:-http://deb.debian.org/debian}
if [ "$(id -u)" != 0 ] || ! command -v debootstrap > /dev/null; then
    echo "test-deb: skipped: root and debootstrap are needed (apt-get install debootstrap)"
    exit 0
fi
root=$(mktemp -d)
# apt reads there as another user.
chmod 755 "$root"
running=
clean() {
    [ -z "$running" ] || kill "$running" 2> /dev/null || true
    [ -z "$running" ] || wait "$running" 2> /dev/null || true
    umount "$root/dev" "$root/sys" "$root/proc" 2> /dev/null || true
    rm -rf --one-file-system "$root"
}
trap clean EXIT
trap 'exit 130' INT TERM
fail() {
    echo "test-deb: $*" >&2
    exit 1
}
inside() {
    chroot "$root" env DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

debootstrap --variant=minbase bookworm "$root" "$mirror" > "$root.log" 2>&1 ||
    { tail -n 5 "$root.log" >&2; rm -f "$root.log"; fail "debootstrap failed"; }
rm -f "$root.log"
mount -t proc proc "$root/proc"
# DPDK looks there for the cores.
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs tmpfs "$root/dev"
mknod -m 666 "$root/dev/null" c 1 3
mknod -m 666 "$root/dev/urandom" c 1 9
mkdir "$root/dev/shm"
# Nothing is started by being installed.
printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
cp "$package" "$root/tmp/hnlb.deb"
inside apt-get update -q > /dev/null
inside apt-get install -y -q --no-install-recommends /tmp/hnlb.deb > "$root/tmp/log" 2>&1 ||
    { tail -n 20 "$root/tmp/log" >&2; fail "the package can't be installed"; }
echo "test-deb: installed"

inside hnlb --version
for file in /lib/systemd/system/hnlb.service /usr/share/bash-completion/completions/hnlb; do
    inside test -e "$file" || fail "$file is missing"
done
mkdir -p "$root/etc/hnlb"
cp "$configuration" "$root/etc/hnlb/hnlb.toml"
inside hnlb check /etc/hnlb/hnlb.toml
chroot "$root" /usr/bin/hnlb run --config /etc/hnlb/hnlb.toml > "$root/tmp/log" 2>&1 &
running=$!
tries=0
until inside hnlb status > "$root/tmp/status" 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 60 ] || { cat "$root/tmp/log" >&2; fail "it does not start"; }
    sleep 0.5
done
grep '^service ' "$root/tmp/status"
kill "$running"
wait "$running" || fail "it does not end as it should"
running=
echo "test-deb: started, asked and ended"

inside apt-get remove -y -q hnlb > /dev/null
[ ! -e "$root/usr/bin/hnlb" ] || fail "the program is left behind"
[ -e "$root/etc/hnlb/hnlb.toml" ] || fail "the configuration is gone"
inside apt-get purge -y -q hnlb > /dev/null
[ ! -e "$root/etc/sysctl.d/60-hnlb.conf" ] || fail "sysctl.d/60-hnlb.conf is left behind"
echo "test-deb: removed"
