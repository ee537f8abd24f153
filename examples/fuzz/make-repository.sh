#!/usr/bin/env bash
# Makes a git repository of the example project with its history, from the patches in history/.
#
#   examples/fuzz/make-repository.sh DIR [COUNT]   all commits, or the first COUNT of them
#
# The fourth commit lets titles be longer than their buffer, the fifth does not build, the sixth repairs the build, the
# seventh corrects the buffer. Called again with a larger COUNT it adds the commits that are missing. Author, dates and
# so the hashes are the same on every machine.
set -euo pipefail

[ $# -ge 1 ] || { echo "usage: $0 DIR [COUNT]" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
patches=("$here"/history/*.patch)
count=${2:-${#patches[@]}}

# Whatever is configured for this user must not change the hashes.
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
export GIT_COMMITTER_NAME="Cadran Example" GIT_COMMITTER_EMAIL=example@cadran.invalid TZ=UTC

if [ ! -d "$1/.git" ]; then git init --quiet --initial-branch=main "$1"; fi
have=$(git -C "$1" rev-list --count HEAD 2>/dev/null || echo 0)
if [ "$count" -gt "$have" ]; then
    git -C "$1" am --quiet --committer-date-is-author-date "${patches[@]:have:count-have}"
fi
git -C "$1" log --oneline --max-count=1
