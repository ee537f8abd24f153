#!/usr/bin/env bash
# Clang with libFuzzer, for the test that takes the example project through the fuzzing pipeline.
#
#   scripts/clang.sh   prints the directory of clang++ on standard output
#
# When it or one of its companions is not installed, Debian's packages clang, libclang-rt-dev (libFuzzer and the
# sanitisers) and llvm (symbols and coverage) are, as root or with sudo. Talk goes to standard error.
set -euo pipefail

say() { printf 'clang: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else
        die "installing clang needs root or sudo; install the packages clang, libclang-rt-dev and llvm, or set CADRAN_SKIP_CLANG=1 to go without tests that fuzz"
    fi
}

# Whether everything is there, tried on the smallest fuzz target.
works() {
    local dir tool
    for tool in clang++ llvm-symbolizer llvm-profdata llvm-cov; do
        command -v "$tool" >/dev/null || return 1
    done
    dir=$(mktemp -d)
    echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char *, unsigned long) { return 0; }' >"$dir/try.cpp"
    clang++ -fsanitize=fuzzer,address "$dir/try.cpp" -o "$dir/try" >/dev/null 2>&1 || { rm -r "$dir"; return 1; }
    rm -r "$dir"
}

[ $# -eq 0 ] || die "usage: scripts/clang.sh"
if ! works; then
    command -v apt-get >/dev/null || die "clang with libFuzzer is not installed and this is not Debian; install it, or set CADRAN_SKIP_CLANG=1 to go without tests that fuzz"
    say "clang with libFuzzer is not installed; installing Debian's packages clang, libclang-rt-dev and llvm"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends clang libclang-rt-dev llvm >&2
    works || die "the packages were installed, but clang++ -fsanitize=fuzzer does not build"
fi
dirname "$(command -v clang++)"
