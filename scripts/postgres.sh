#!/usr/bin/env bash
# A PostgreSQL server for tests and benchmarks, on loopback, in a directory of its own.
#
#   scripts/postgres.sh start DIR   starts one (or uses CADRAN_TEST_POSTGRES) and prints its URL on standard output
#   scripts/postgres.sh stop DIR    stops the one that was started in DIR
#
# CADRAN_TEST_POSTGRES=URL         use this server; nothing is installed, started or stopped
# CADRAN_POSTGRES_PORT=PORT        port to listen on (default: a free one)
# CADRAN_POSTGRES_FSYNC=on         write through to the disk, for benchmarks (default: off, for tests)
#
# When PostgreSQL is not installed, Debian's package is, as root or with sudo. Talk goes to standard error.
set -euo pipefail

say() { printf 'postgres: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else
        die "installing PostgreSQL needs root or sudo; install the package postgresql, or set CADRAN_TEST_POSTGRES"
    fi
}

# PostgreSQL refuses to run as root: its own user does it then.
as_server() {
    if [ "$(id -u)" = 0 ]; then (cd / && runuser -u postgres -- "$@"); else "$@"; fi
}

find_bin() {
    local bin
    bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1) || true
    if [ -n "$bin" ] && [ -x "$bin/initdb" ]; then echo "$bin"; return; fi
    if command -v initdb >/dev/null && command -v pg_ctl >/dev/null; then dirname "$(command -v initdb)"; fi
}

ensure_installed() {
    BIN=$(find_bin)
    [ -n "$BIN" ] && return
    command -v apt-get >/dev/null || die "PostgreSQL is not installed and this is not Debian; set CADRAN_TEST_POSTGRES to a server's URL"
    say "PostgreSQL is not installed; installing Debian's package postgresql"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2
    # The package would otherwise create and start a cluster of its own.
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql-common >&2
    as_root sh -c 'mkdir -p /etc/postgresql-common && grep -qs "^create_main_cluster" /etc/postgresql-common/createcluster.conf || echo "create_main_cluster = false" >> /etc/postgresql-common/createcluster.conf'
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql >&2
    BIN=$(find_bin)
    [ -n "$BIN" ] || die "the package postgresql was installed, but initdb is not where it should be"
}

free_port() {
    local port
    for port in $(seq 55440 55539); do
        if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then echo "$port"; return; fi
    done
    die "no free port between 55440 and 55539; set CADRAN_POSTGRES_PORT"
}

start() {
    if [ -n "${CADRAN_TEST_POSTGRES:-}" ]; then
        say "using the server of CADRAN_TEST_POSTGRES"
        echo "$CADRAN_TEST_POSTGRES"
        return
    fi
    local dir=$1 data port durable
    ensure_installed
    mkdir -p "$dir"
    dir=$(cd "$dir" && pwd)
    data=$dir/pg
    if [ -f "$data/postmaster.pid" ] && as_server "$BIN/pg_ctl" -D "$data" status >/dev/null 2>&1; then
        say "a server runs in $dir already"
        cat "$dir/url"
        return
    fi
    if [ ! -f "$data/PG_VERSION" ]; then
        rm -rf "$data"
        if [ "$(id -u)" = 0 ]; then
            chmod a+rx "$dir"
            install -d -o postgres -g postgres -m 700 "$data"
        else
            install -d -m 700 "$data"
        fi
        as_server "$BIN/initdb" -D "$data" -A trust -U cadran --no-sync -E UTF8 --locale=C >/dev/null
    fi
    port=${CADRAN_POSTGRES_PORT:-$(free_port)}
    durable="-c fsync=off -c synchronous_commit=off -c full_page_writes=off"
    if [ "${CADRAN_POSTGRES_FSYNC:-off}" = on ]; then durable="-c fsync=on -c synchronous_commit=on"; fi
    if ! as_server "$BIN/pg_ctl" -D "$data" -w -t 60 -l "$data/log" -o "-p $port -c listen_addresses=127.0.0.1 \
        -c unix_socket_directories=$data -c max_connections=200 -c shared_buffers=256MB -c max_wal_size=4GB $durable" start >&2; then
        tail -5 "$data/log" >&2 || true
        die "the server did not start; its log is $data/log"
    fi
    echo "postgres://cadran@127.0.0.1:$port/postgres" | tee "$dir/url"
}

stop() {
    local data=$1/pg
    if [ ! -f "$data/postmaster.pid" ]; then
        say "no server runs in $1"
        return
    fi
    BIN=$(find_bin)
    data=$(cd "$data" && pwd)
    as_server "$BIN/pg_ctl" -D "$data" -w -m fast stop >&2
}

usage="usage: scripts/postgres.sh start DIR | stop DIR"
[ $# -eq 2 ] || die "$usage"
case $1 in
    start) start "$2" ;;
    stop) stop "$2" ;;
    *) die "$usage" ;;
esac
