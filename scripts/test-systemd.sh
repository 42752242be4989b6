#!/bin/sh
# A package of HNLB in a Debian that systemd runs, in QEMU: installed, started, reloaded,
# killed by its watchdog, upgraded, stopped and removed:
#
#   test-systemd.sh PACKAGE CACHE
#
# Needs root, debootstrap, QEMU and a Debian mirror (MIRROR). CACHE keeps the base system
# and the kernel between runs.
set -eu
package=$(realpath "$1")
mkdir -p "$2"
cache=$(realpath "$2")
here=$(cd "$(dirname "$0")" && pwd)
mirror=${MIRROR:-http://deb.debian.org/debian}
skip() {
    echo "test-systemd: skipped: $*"
    exit 0
}
[ "$(id -u)" = 0 ] || skip "root is needed"
for program in debootstrap qemu-system-x86_64 mkfs.ext4; do
    command -v $program > /dev/null || skip "$program is not installed"
done
work=$(mktemp -d)
chmod 755 "$work"
root=$work/root
clean() {
    umount "$root/proc" 2> /dev/null || true
    rm -rf --one-file-system "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM
fail() {
    echo "test-systemd: $*" >&2
    exit 1
}
inside() {
    chroot "$root" env DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

if [ ! -e "$cache/systemd.tar" ]; then
    echo "test-systemd: a base system is made"
    debootstrap --variant=minbase --include=systemd-sysv,dbus,init-system-helpers bookworm \
        "$root" "$mirror" > "$work/log" 2>&1 || { tail -n 5 "$work/log" >&2; fail "debootstrap failed"; }
    tar -C "$root" -cf "$cache/systemd.tar.new" .
    mv "$cache/systemd.tar.new" "$cache/systemd.tar"
else
    mkdir "$root"
    tar -C "$root" -xf "$cache/systemd.tar"
fi
# What the package needs is installed here, and the package itself in the guest.
mount -t proc proc "$root/proc"
printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
cp "$package" "$root/root/hnlb.deb"
inside apt-get update -q > /dev/null
inside apt-get install -y -q --no-install-recommends /root/hnlb.deb > "$work/log" 2>&1 ||
    { tail -n 20 "$work/log" >&2; fail "the package can't be installed"; }
inside dpkg -P hnlb > /dev/null
inside apt-get clean
umount "$root/proc"
rm "$root/usr/sbin/policy-rc.d"

cp "$here/no-device.toml" "$root/root/hnlb.toml"
cat > "$root/root/test.sh" << 'END'
# Runs in the guest, as a service of systemd's.
set -eu
state() { systemctl show hnlb.service -p "$1" --value; }
ok() { echo "ok      $*"; }
wait_for() { # SECONDS WHAT COMMAND...
    seconds=$1 what=$2
    shift 2
    until "$@"; do
        seconds=$((seconds - 1))
        [ $seconds -gt 0 ] || {
            echo "FAILED  $what"
            systemctl status --no-pager hnlb.service || true
            journalctl --no-pager -u hnlb.service | tail -n 30 || true
            exit 1
        }
        sleep 1
    done
    ok "$what"
}
is() { [ "$(state "$1")" = "$2" ]; }
dpkg -i /root/hnlb.deb > /dev/null
is ActiveState inactive
is Result success
ok "installed; without a configuration it does not start, and has not failed"
mkdir -p /etc/hnlb
cp /root/hnlb.toml /etc/hnlb/hnlb.toml
systemctl start hnlb.service
is ActiveState active
ok "started: systemctl returned when it was ready (Type=notify)"
hnlb status | grep '^service '
pid=$(state MainPID)
grep -q '^NoNewPrivs:[[:space:]]1' "/proc/$pid/status"
ok "no new privileges"
[ "$(awk '/core file size/ { print $5 }' "/proc/$pid/limits")" = 0 ]
ok "no core files"
systemctl is-enabled hnlb.service > /dev/null
ok "enabled: it starts with the machine"
sed -i 's/^address = "10.71.0.11"/&\nweight = 3/' /etc/hnlb/hnlb.toml
systemctl reload hnlb.service
hnlb status --json | grep -q '"weight": *3'
is MainPID "$pid"
ok "reloaded: the weight is another, the process the same"
hnlb backend weight web 10.71.0.11 --weight 5 > /dev/null
hnlb config save > /dev/null
grep -q '^weight = 5' /etc/hnlb/hnlb.toml
ok "saved: a change by the API is in the file"
cp /etc/hnlb/hnlb.toml /root/good.toml
echo 'nonsense = 1' >> /etc/hnlb/hnlb.toml
if systemctl reload hnlb.service 2> /dev/null; then
    echo "FAILED  a broken file is reloaded"
    exit 1
fi
cp /root/good.toml /etc/hnlb/hnlb.toml
is MainPID "$pid"
logged() { # PRIORITY TEXT
    journalctl --no-pager -u hnlb.service --priority "$1" -o cat | grep -q "$2"
}
wait_for 30 "a broken file is an error in the journal" logged err 'configuration is refused'
wait_for 30 "with all of its lines" logged err 'hnlb.toml:[0-9]'
wait_for 30 "what is said of the start is there" logged info 'running'
if logged warning 'running'; then
    echo "FAILED  what is no warning is one in the journal"
    exit 1
fi
ok "and it is no warning"
kill -STOP "$pid"
restarted() { [ "$(state NRestarts)" -ge 1 ] && is ActiveState active && ! is MainPID "$pid"; }
wait_for 300 "hung: the watchdog has ended it, and it runs again" restarted
pid=$(state MainPID)
dpkg -i /root/hnlb.deb > /dev/null
wait_for 300 "upgraded: another process runs" sh -c "
    [ \"\$(systemctl show hnlb.service -p ActiveState --value)\" = active ] &&
    [ \"\$(systemctl show hnlb.service -p MainPID --value)\" != $pid ]"
systemctl stop hnlb.service
is ActiveState inactive
is Result success
ok "stopped in order"
systemctl start hnlb.service
pid=$(state MainPID)
dpkg -r hnlb > /dev/null
[ ! -d "/proc/$pid" ]
[ ! -e /usr/bin/hnlb ]
[ -e /etc/hnlb/hnlb.toml ]
ok "removed: it has ended, and the configuration is there"
dpkg -P hnlb > /dev/null
[ ! -e /etc/sysctl.d/60-hnlb.conf ]
ok "purged"
END
cat > "$root/etc/systemd/system/hnlb-test.service" << 'END'
[Unit]
Description=The test of the package
After=multi-user.target

[Service]
Type=oneshot
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
TimeoutStartSec=infinity
ExecStart=/bin/sh -c '/bin/sh /root/test.sh; echo $? > /dev/ttyS1; exec systemctl poweroff -ff'
END
mkdir -p "$root/etc/systemd/system/default.target.wants"
ln -s ../hnlb-test.service "$root/etc/systemd/system/default.target.wants/hnlb-test.service"
for unit in serial-getty@ttyS0 getty@tty1 apt-daily.timer apt-daily-upgrade.timer; do
    case $unit in *.timer) ;; *) unit=$unit.service ;; esac
    ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
ln -sf /lib/systemd/system/multi-user.target "$root/etc/systemd/system/default.target"

truncate -s 2G "$work/disk"
mkfs.ext4 -q -d "$root" "$work/disk"
rm -rf --one-file-system "$root"
mkdir "$root" "$work/share"
status=0
VM_DISK=$work/disk "$here/../crates/lab/vm/boot.sh" "$cache" "$work/share" 1800 true \
    > "$cache/systemd.log" 2>&1 || status=$?
case $status in
0)
    grep -aE '^(ok|service)' "$cache/systemd.log" | tr -d '\r'
    echo "test-systemd: PASS"
    ;;
77) grep -a skipped "$cache/systemd.log" ;;
*)
    tail -n 60 "$cache/systemd.log"
    fail "FAIL (exit status $status)"
    ;;
esac
