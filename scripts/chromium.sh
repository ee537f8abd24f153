#!/usr/bin/env bash
# Prints the path of Chromium for the tests of the page.
#
# CADRAN_TEST_CHROMIUM=PATH    use this one; nothing is installed
#
# When Chromium is not there, Debian's package is installed, as root or with sudo. Talk goes to standard error.
set -euo pipefail

say() { printf 'chromium: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else
        die "installing Chromium needs root or sudo; install the package chromium, or set CADRAN_TEST_CHROMIUM"
    fi
}

if [ -n "${CADRAN_TEST_CHROMIUM:-}" ]; then
    [ -x "$CADRAN_TEST_CHROMIUM" ] || die "CADRAN_TEST_CHROMIUM names $CADRAN_TEST_CHROMIUM, which is no program"
    printf '%s\n' "$CADRAN_TEST_CHROMIUM"
    exit
fi
if ! command -v chromium >/dev/null; then
    command -v apt-get >/dev/null || die "Chromium is not installed and this is not Debian; set CADRAN_TEST_CHROMIUM"
    say "Chromium is not installed; installing Debian's package chromium"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-liberation >&2
fi
command -v chromium
