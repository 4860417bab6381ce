#!/usr/bin/env bash
# Builds every fuzz target and runs each for some seconds from its seeds; what it finds fails.
#   fuzz.sh [SECONDS]       5 unless told; with 0 they are only built
# Ends with 3 where the fuzzer, which is C++, cannot be built.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"
seconds=${1:-5}
build=(env RUSTC_WRAPPER="$PWD/../.ci/fuzz-rustc.sh" cargo build --locked --quiet --target-dir target)
"${build[@]}" --package libfuzzer-sys || {
    echo "libfuzzer cannot be built here: a C++ compiler with its library (g++) is needed"
    exit 3
}
[ "$seconds" != 0 ] || exec "${build[@]}"
"${build[@]}"

# In memory: what syncs at its end would do little else on a busy disk.
found=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)
trap 'rm -rf "$found"' EXIT
one() {
    local log="$found/$1.log" grown="$found/$1.grown"
    mkdir "$grown"
    if "target/debug/$1" "$grown" "corpus/$1" -max_total_time="$2" -rss_limit_mb=4096 -timeout=60 \
        -artifact_prefix="$found/$1-" >"$log" 2>&1; then
        sed -n 's/^\(stat::number_of_executed_units\|Done\)/'"$1"': &/p' "$log"
    else
        tail -40 "$log"
        find "$found" -name "$1-*" -type f -exec sh -c 'echo "$1:"; head -c 3000 "$1" | base64' sh {} \;
        return 1
    fi
}
export -f one
# What targets write goes with the rest.
export found TMPDIR="$found"
sed -n 's/^name = "\(.*\)"$/\1/p' Cargo.toml | grep -v fsage-fuzz |
    xargs -P "$(nproc)" -I{} bash -euc "one {} $seconds"
