#!/bin/sh
# Every relative link in the documentation leads to a file that is there, and
# to a heading of it if the link names one.
set -eu
cd "$(dirname "$0")/.."

# The anchors of a page's headings, as Git forges make them.
anchors() {
    sed -n '/^```/,/^```/!s/^##* //p' "$1" | tr '[:upper:]' '[:lower:]' |
        sed 's/\[\([^]]*\)\]([^)]*)/\1/g; s/[^a-z0-9 _-]//g; s/ /-/g'
}

status=0
for page in ./*.md $(find docs crates/*/README.md -name '*.md' 2> /dev/null); do
    links=$(sed '/^```/,/^```/d; s/`[^`]*`//g' "$page" | grep -o '](\([^)]*\))' |
        sed 's/^](//; s/)$//' | grep -v '^[a-z]*:' || :)
    for link in $links; do
        file=${link%%#*}
        target=$page
        [ -z "$file" ] || target=$(dirname "$page")/$file
        if [ ! -e "$target" ]; then
            echo "$page: $link: no such file" >&2
            status=1
        elif [ "$link" != "$file" ] && ! anchors "$target" | grep -qx -- "${link#*#}"; then
            echo "$page: $link: no such heading" >&2
            status=1
        fi
    done
done
exit $status
