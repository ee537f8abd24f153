#!/usr/bin/env bash
# A MariaDB server for the test of imports, on loopback, in a directory of its own.
#
#   scripts/mariadb.sh start DIR    starts one (or uses CADRAN_TEST_MYSQL) and prints its URL on standard output
#   scripts/mariadb.sh stop DIR     stops the one that was started in DIR
#   scripts/mariadb.sh install      installs what is missing, and starts nothing
#
# CADRAN_TEST_MYSQL=URL            use this server; nothing is installed, started or stopped
# CADRAN_MARIADB_PORT=PORT         port to listen on (default: a free one)
#
# When MariaDB is not installed, Debian's package is, as root or with sudo. Talk goes to standard error.
set -euo pipefail

say() { printf 'mariadb: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else
        die "installing MariaDB needs root or sudo; install the package mariadb-server, or set CADRAN_TEST_MYSQL"
    fi
}

# MariaDB refuses to run as root: its own user does it then.
as_server() {
    if [ "$(id -u)" = 0 ]; then (cd / && runuser -u mysql -- "$@"); else "$@"; fi
}

is_installed() { command -v mariadbd >/dev/null && command -v mariadb-install-db >/dev/null && command -v mariadb >/dev/null; }

ensure_installed() {
    is_installed && return
    command -v apt-get >/dev/null || die "MariaDB is not installed and this is not Debian; set CADRAN_TEST_MYSQL to a server's URL"
    say "MariaDB is not installed; installing Debian's package mariadb-server"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2
    # The package would otherwise start a server of its own.
    local policy=/usr/sbin/policy-rc.d kept=1
    if [ ! -e "$policy" ]; then
        kept=0
        as_root sh -c "printf '#!/bin/sh\nexit 101\n' > $policy && chmod 755 $policy"
    fi
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mariadb-server mariadb-client >&2 || {
        [ $kept = 1 ] || as_root rm -f "$policy"
        die "Debian's package mariadb-server could not be installed"
    }
    [ $kept = 1 ] || as_root rm -f "$policy"
    is_installed || die "the package mariadb-server was installed, but mariadbd is not where it should be"
}

free_port() {
    local port
    for port in $(seq 53310 53409); do
        if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then echo "$port"; return; fi
    done
    die "no free port between 53310 and 53409; set CADRAN_MARIADB_PORT"
}

is_up() { mariadb-admin --no-defaults --socket="$1/s" -uroot ping >/dev/null 2>&1; }

start() {
    if [ -n "${CADRAN_TEST_MYSQL:-}" ]; then
        say "using the server of CADRAN_TEST_MYSQL"
        echo "$CADRAN_TEST_MYSQL"
        return
    fi
    local dir=$1 data port left
    ensure_installed
    mkdir -p "$dir"
    dir=$(cd "$dir" && pwd)
    data=$dir/my
    if [ -f "$dir/url" ] && is_up "$data"; then
        say "a server runs in $dir already"
        cat "$dir/url"
        return
    fi
    rm -rf "$data"
    if [ "$(id -u)" = 0 ]; then
        chmod a+rx "$dir"
        install -d -o mysql -g mysql -m 700 "$data"
    else
        install -d -m 700 "$data"
    fi
    as_server mariadb-install-db --no-defaults --datadir="$data" --auth-root-authentication-method=normal --skip-test-db >"$dir/install.log" 2>&1 ||
        die "the tables of the server could not be made; see $dir/install.log"
    port=${CADRAN_MARIADB_PORT:-$(free_port)}
    as_server mariadbd --no-defaults --datadir="$data" --port="$port" --bind-address=127.0.0.1 --socket="$data/s" \
        --pid-file="$data/pid" --innodb-flush-log-at-trx-commit=0 --innodb-buffer-pool-size=16M --skip-name-resolve \
        >"$dir/log" 2>&1 </dev/null &
    left=300
    until is_up "$data"; do
        left=$((left - 1))
        [ $left -gt 0 ] || die "the server did not start; its log is $dir/log"
        sleep 0.2
    done
    mariadb --no-defaults --socket="$data/s" -uroot -e "create database cadran character set utf8mb4;
        create user cadran@'127.0.0.1' identified by 'cadran'; grant all on *.* to cadran@'127.0.0.1'" >&2
    echo "mysql://cadran:cadran@127.0.0.1:$port/cadran" | tee "$dir/url"
}

stop() {
    local data=$1/my
    if ! [ -f "$data/pid" ]; then
        say "no server runs in $1"
        return
    fi
    data=$(cd "$data" && pwd)
    mariadb-admin --no-defaults --socket="$data/s" -uroot shutdown >&2
}

usage="usage: scripts/mariadb.sh start DIR | stop DIR | install"
case $#:${1:-} in
    2:start) start "$2" ;;
    2:stop) stop "$2" ;;
    1:install) [ -n "${CADRAN_TEST_MYSQL:-}" ] || ensure_installed ;;
    *) die "$usage" ;;
esac
