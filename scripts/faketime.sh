#!/usr/bin/env bash
# The library that gives a program a clock of its own, for tests of clock jumps.
#
#   scripts/faketime.sh   prints the library's path on standard output
#
# CADRAN_TEST_FAKETIME=PATH        use this library; nothing is installed
#
# When it is not installed, Debian's package libfaketime is, as root or with sudo. Talk goes to standard error.
set -euo pipefail

say() { printf 'faketime: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else
        die "installing libfaketime needs root or sudo; install the package libfaketime, or set CADRAN_SKIP_FAKETIME=1 to go without tests of clock jumps"
    fi
}

find_library() {
    local library
    for library in /usr/lib/*/faketime/libfaketimeMT.so.1 /usr/lib*/faketime/libfaketimeMT.so.1 /usr/local/lib/faketime/libfaketimeMT.so.1; do
        if [ -r "$library" ]; then echo "$library"; return; fi
    done
}

[ $# -eq 0 ] || die "usage: scripts/faketime.sh"
if [ -n "${CADRAN_TEST_FAKETIME:-}" ]; then
    say "using the library of CADRAN_TEST_FAKETIME"
    echo "$CADRAN_TEST_FAKETIME"
    exit
fi
library=$(find_library)
if [ -z "$library" ]; then
    command -v apt-get >/dev/null || die "libfaketime is not installed and this is not Debian; set CADRAN_TEST_FAKETIME to the path of libfaketimeMT.so.1, or CADRAN_SKIP_FAKETIME=1 to go without tests of clock jumps"
    say "libfaketime is not installed; installing Debian's package libfaketime"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends libfaketime >&2
    library=$(find_library)
    [ -n "$library" ] || die "the package libfaketime was installed, but its library is not where it should be"
fi
echo "$library"
