#!/usr/bin/env bash
# Executors of other people for the tests: pyxxl from PyPI, xxl-job from npm, xxljob-sdk-rs from crates.io.
#
#   scripts/clients.sh DIR   installs what is missing into DIR and prints DIR on standard output
#
# Python and Node come from Debian's packages when they are missing, as root or with sudo. Talk goes to standard error.
set -euo pipefail

PYXXL=0.4.8 XXL_JOB=0.1.7 EXPRESS=4.22.3

say() { printf 'clients: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else
        die "installing $* needs root or sudo; install it by hand"
    fi
}

install_packages() {
    command -v apt-get >/dev/null || die "$* is missing and this is not Debian; install it by hand"
    say "installing Debian's packages $*"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}

[ $# -eq 1 ] || die "usage: scripts/clients.sh DIR"
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
dir=$(cd "$1" && pwd)

python3 -c 'import venv, ensurepip' 2>/dev/null || install_packages python3 python3-venv
command -v node >/dev/null && command -v npm >/dev/null || install_packages nodejs npm

# The three have nothing to do with one another.
python() {
    [ -f "$dir/python/pyxxl-$PYXXL" ] && return
    rm -rf "$dir/python"
    python3 -m venv "$dir/python" >&2
    "$dir/python/bin/pip" install -q --disable-pip-version-check "pyxxl==$PYXXL" >&2
    touch "$dir/python/pyxxl-$PYXXL"
}
node_modules() {
    [ -f "$dir/node/xxl-job-$XXL_JOB" ] && return
    rm -rf "$dir/node"
    mkdir -p "$dir/node"
    (cd "$dir/node" && npm install --silent --no-audit --no-fund --ignore-scripts "xxl-job@$XXL_JOB" "express@$EXPRESS" >&2)
    touch "$dir/node/xxl-job-$XXL_JOB"
}
rust() {
    CARGO_TARGET_DIR="$dir/rust" cargo build --quiet --locked --manifest-path "$here/clients/rust/Cargo.toml" >&2
}
python & one=$!
node_modules & two=$!
rust & three=$!
wait $one || die "pyxxl could not be installed"
wait $two || die "the npm packages could not be installed"
wait $three || die "the Rust client could not be built"
echo "$dir"
