#!/bin/sh
# Installs the Debian packages that building and testing need; quiet and quick
# if they are there. Root or sudo is needed only to install something.
set -eu

# Without these nothing can be built.
build="gcc make pkg-config clang libclang-dev libdpdk-dev libelf-dev zlib1g-dev
    libndpi-dev"
# Without it the instructions per packet are not counted.
count="valgrind"
# Without these the lab, and what is tested in it, is skipped.
lab="iproute2 ethtool util-linux nginx nsd wrk curl openssl nghttp2-client apache2-utils bind9-dnsutils dnsperf nftables haproxy
    iputils-ping iputils-tracepath traceroute bird2 keepalived"
# Without these the test on another kernel is skipped.
vm="qemu-system-x86 busybox-static binutils"

missing() {
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2> /dev/null | grep -q ' installed$' ||
            echo "$package"
    done
}

if ! command -v apt-get > /dev/null; then
    echo "deps: no apt-get here; these Debian packages, or what they contain, are needed:" >&2
    echo "deps: $build $count $lab $vm" >&2
    exit 0
fi
# shellcheck disable=SC2086 # lists of words
need=$(missing $build $count $lab $vm)
[ -n "$need" ] || exit 0
need=$(echo "$need" | tr '\n' ' ')

if [ "$(id -u)" = 0 ]; then
    root=
elif command -v sudo > /dev/null && sudo -n true 2> /dev/null; then
    root="sudo -n"
elif command -v sudo > /dev/null && [ -t 0 ]; then
    root=sudo
else
    echo "deps: skipped: not root and no sudo; missing are: $need" >&2
    exit 0
fi

echo "deps: installing $need"
# Servers are wanted in the lab's namespaces only: not started by being
# installed, nor at the next boot.
guard=/usr/sbin/policy-rc.d
if [ ! -e $guard ]; then
    printf '#!/bin/sh\nexit 101\n' | $root tee $guard > /dev/null
    $root chmod 755 $guard
    trap '$root rm -f $guard' EXIT
    trap 'exit 130' INT TERM
fi
install() {
    $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" \
        < /dev/null
}
$root apt-get update -q < /dev/null
# shellcheck disable=SC2046,SC2086 # lists of words
install $(missing $build $count $lab)
# shellcheck disable=SC2046,SC2086
install $(missing $vm) || echo "deps: $vm cannot be installed; make test-vm will be skipped" >&2
if [ -d /run/systemd/system ]; then
    for server in nginx nsd haproxy bird2 keepalived; do
        case " $need " in *" $server "*) $root systemctl disable "${server%2}" || : ;; esac
    done
fi
