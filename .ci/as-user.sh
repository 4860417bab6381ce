#!/usr/bin/env bash
# The tests as an ordinary user, by root and without a second build: as-user.sh ID [CARGO ARGUMENT...]
# .ci/run names those that do something else as such a user; without any it is all of them.
# A repository where that user may not go (below /root) is shown in a mount namespace.
set -euo pipefail
cd "$(dirname "$0")/.."
user=$1
shift
sees() { setpriv --reuid="$user" --regid="$user" --clear-groups test -r "$1/Cargo.toml"; }
if ! sees "$PWD"; then
    [ -z "${FSAGE_SHOWN:-}" ] || { echo "failed to show $PWD to user $user" >&2; exit 1; }
    export FSAGE_SHOWN=1 CARGO_HOME="${CARGO_HOME:-$HOME/.cargo}" RUSTUP_HOME="${RUSTUP_HOME:-$HOME/.rustup}"
    # Its first directory becomes an empty one that holds nothing but what is needed.
    exec unshare --mount bash -euc '
        top=/$(cut -d/ -f2 <<<"$PWD")
        hold=$(mktemp -d)
        mount -t tmpfs tmpfs "$hold"
        trap "umount --lazy $hold; rmdir $hold" EXIT
        number=0
        for each in "$PWD" "$CARGO_HOME" "$RUSTUP_HOME"; do
            mkdir "$hold/$((++number))"
            mount --bind "$each" "$hold/$number"
        done
        mount -t tmpfs -o mode=755 tmpfs "$top"
        number=0
        for each in "$PWD" "$CARGO_HOME" "$RUSTUP_HOME"; do
            case $each in "$top"/*) mkdir -p "$each" && mount --bind "$hold/$((number + 1))" "$each" ;; esac
            number=$((number + 1))
        done
        cd "$PWD"
        bash .ci/as-user.sh "$@"' bash "$user" "$@"
fi
# .ci/run has built it already.
${XTASK:-cargo xtask} test --user "$user" "$@"
