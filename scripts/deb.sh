#!/bin/sh
# Makes a Debian package of a built hnlb, and has lintian check it:
#
#   deb.sh HNLB DIRECTORY
#
# The package hnlb_VERSION_ARCHITECTURE.deb is put into DIRECTORY.
set -eu
program=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
cd "$(dirname "$0")/.."
for tool in dpkg-deb dpkg-shlibdeps strip gzip; do
    if ! command -v $tool > /dev/null; then
        echo "deb: skipped: $tool is not installed (apt-get install dpkg-dev binutils)"
        exit 0
    fi
done
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)-1
architecture=$(dpkg --print-architecture)
# Commits have a date; a package made twice is the same.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2> /dev/null || date +%s)}
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
umask 022
chmod 755 "$work"
root=$work/root
put() { # MODE FILE DIRECTORY [NAME]
    install -D -m "$1" "$2" "$root/$3/${4:-$(basename "$2")}"
}
put 755 "$program" usr/bin hnlb
strip --strip-unneeded --remove-section=.comment --remove-section=.note "$root/usr/bin/hnlb"
put 644 packaging/hnlb.service lib/systemd/system
put 644 packaging/hugepages.conf etc/sysctl.d 60-hnlb.conf
put 644 packaging/copyright usr/share/doc/hnlb
for page in docs/user/*.md CHANGELOG.md; do
    name=$(basename "$page" | tr '[:upper:]' '[:lower:]' | sed 's/^changelog.md$/changelog/')
    put 644 "$page" usr/share/doc/hnlb "$name"
    gzip -9n "$root/usr/share/doc/hnlb/$name"
done
maintainer="HNLB <hnlb@localhost.localdomain>"
printf 'hnlb (%s) unstable; urgency=medium\n\n  * The changes are in changelog.gz.\n\n -- %s  %s\n' \
    "$version" "$maintainer" "$(date -R -u -d "@$SOURCE_DATE_EPOCH")" |
    gzip -9n > "$root/usr/share/doc/hnlb/changelog.Debian.gz"
# The project has no address for mail, and the package is not Debian's.
mkdir -p "$root/usr/share/lintian/overrides"
for tag in bogus-mail-host bogus-mail-host-in-debian-changelog initial-upload-closes-no-bugs; do
    echo "hnlb: $tag"
done > "$root/usr/share/lintian/overrides/hnlb"
for file in examples/*.toml docs/user/config.schema.json; do
    put 644 "$file" usr/share/doc/hnlb/examples
done
mkdir -p "$root/usr/share/man/man1" "$root/etc/hnlb"
"$program" man "$root/usr/share/man/man1"
gzip -9n "$root"/usr/share/man/man1/*
for shell in bash zsh fish; do
    "$program" completions $shell > "$work/$shell"
done
put 644 "$work/bash" usr/share/bash-completion/completions hnlb
put 644 "$work/zsh" usr/share/zsh/vendor-completions _hnlb
put 644 "$work/fish" usr/share/fish/vendor_completions.d hnlb.fish

# The libraries that the program is linked with; drivers are plug-ins beside them.
mkdir "$work/debian"
printf 'Source: hnlb\n\nPackage: hnlb\nArchitecture: any\n' > "$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O root/usr/bin/hnlb 2> /dev/null |
    sed -n 's/^shlibs:Depends=//p')
mkdir "$root/DEBIAN"
cat > "$root/DEBIAN/control" <<END
Package: hnlb
Version: $version
Architecture: $architecture
Maintainer: $maintainer
Installed-Size: $(du -k -s "$root" | cut -f 1)
Depends: $depends, init-system-helpers (>= 1.54), librte-meta-net | librte-meta-allpmds, librte-meta-mempool | librte-meta-allpmds
Recommends: dpdk, ethtool
Section: net
Priority: optional
Description: hybrid load balancer on DPDK
 HNLB is a stateful layer-4 load balancer. It keeps its connection table in
 software and offloads it into the match tables of the NIC, so that packets of
 known connections arrive already matched.
 .
 The package has the program, a systemd unit that starts once there is a
 configuration in /etc/hnlb/hnlb.toml, man pages and completions.
END
for script in postinst prerm postrm; do
    install -m 755 packaging/$script "$root/DEBIAN/$script"
done
echo /etc/sysctl.d/60-hnlb.conf > "$root/DEBIAN/conffiles"
(cd "$root" && find . -type f ! -path './DEBIAN/*' -printf '%P\n' | LC_ALL=C sort |
    xargs md5sum) > "$root/DEBIAN/md5sums"
chmod 644 "$root/DEBIAN/control" "$root/DEBIAN/conffiles" "$root/DEBIAN/md5sums"
package=$out/hnlb_${version}_$architecture.deb
dpkg-deb --root-owner-group --build "$root" "$package" > /dev/null
if command -v lintian > /dev/null; then
    lintian --fail-on error,warning "$package"
else
    echo "deb: lintian is not installed, so the package is not checked"
fi
echo "$package"
