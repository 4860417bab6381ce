#!/usr/bin/env bash
# Whether two profiles of one target say the same: three quick profiles of a target are taken, each on a
# file system of its own, and the seven first workloads of benchmarks/matrix.toml, traced once each on ext4 in
# memory, are predicted from each. Printed is, for each workload, the largest prediction over the smallest,
# of the time in the file system and of the elapsed time.
#
# Goal: no ratio above 1.5 on a quiet machine. Exit status 1 if one is.
#
#   sudo benchmarks/three-profiles.sh [OUTPUT-DIRECTORY [TARGET...]]
#
# TARGET defaults to scratch:ext4; several are looked at one after another. PROFILES (3) and WORKLOADS
# (names of the plan, separated by commas) make it longer or shorter, TRACES is a directory of an earlier
# run of this script whose traces are used again. About four minutes for one target. Needs root and jq.
set -euo pipefail
cd "$(dirname "$0")/.."
. benchmarks/machine.sh
out=${1:-benchmarks/runs/$(date +%Y-%m-%d)-three-profiles}
if [ $# -gt 0 ]; then shift; fi
[ $# -gt 0 ] || set -- scratch:ext4
fsage=${FSAGE:-target/release/fsage}
profiles=${PROFILES:-3}
workloads=${WORKLOADS:-PostMark,source tree,SDET 1,SDET 4,varmail,webserver,small read}
command -v jq >/dev/null || { echo "not run: needs jq" >&2; exit 1; }
[ "$(id -u)" = 0 ] || { echo "not run: needs root" >&2; exit 1; }

mkdir -p "$out"
{
    echo "command: benchmarks/three-profiles.sh, $profiles profiles of $*"
    machine
} >"$out/machine.txt"

traces=${TRACES:-}
if [ -z "$traces" ]; then
    traces=$out/traces
    only=()
    while IFS= read -r name; do only+=(--workload "$name"); done < <(tr , '\n' <<<"$workloads")
    # The profile that a validation needs is none of the three.
    "$fsage" validate benchmarks/matrix.toml --allow-commands --target "ext4 ram" --runs 1 --profile-time 15s "${only[@]}" \
        --output "$traces" --resume >"$out/traces.txt" 2>&1 || { cat "$out/traces.txt" >&2; exit 1; }
fi

predictions=$out/predictions.tsv
printf 'target\tworkload\tprofile\tlatency_total_ns\telapsed_ns\n' >"$predictions"
number=0
for target in "$@"; do
    number=$((number + 1))
    for i in $(seq "$profiles"); do
        profile=$out/target$number-profile$i.fsp
        [ -s "$profile" ] || "$fsage" profile "$target" --quick --seed "$i" -o "$profile" 2>>"$out/profiles.txt"
        for trace in "$traces"/*.fst; do
            start=()
            [ -e "${trace%.fst}.fss" ] && start=(--snapshot "${trace%.fst}.fss")
            # 3: something is missing, which is missing of all profiles alike.
            "$fsage" predict "$trace" "${start[@]}" --on "$profile" --json >"$out/prediction.json" \
                2>>"$out/predict.txt" || [ $? = 3 ]
            jq -r --arg t "$target" --arg w "$(basename "$trace" .fst)" --arg p "$i" \
                '.. | objects | select(has("latency_total_ns") and has("elapsed_ns"))
                    | [$t, $w, $p, .latency_total_ns, .elapsed_ns] | @tsv' "$out/prediction.json" |
                head -1 >>"$predictions"
        done
    done
done
rm -f "$out/prediction.json"

awk -F'\t' '
    NR > 1 {
        key = $1 "\t" $2
        for (i = 4; i <= 5; i++) {
            v = $i + 0
            if (!((key, i) in max) || v > max[key, i]) max[key, i] = v
            if (!((key, i) in min) || v < min[key, i]) min[key, i] = v
        }
        keys[key] = 1
    }
    END {
        printf "%-32s %-24s %10s %10s\n", "target", "workload", "latency", "elapsed"
        for (key in keys) {
            split(key, part, "\t")
            latency = max[key, 4] / min[key, 4]
            elapsed = max[key, 5] / min[key, 5]
            printf "%-32s %-24s %10.2f %10.2f\n", part[1], part[2], latency, elapsed
            if (latency > worst) worst = latency
        }
        printf "largest ratio between predictions of one workload: %.2f (goal: at most 1.5)\n", worst
        exit !(worst > 0 && worst <= 1.5)
    }' "$predictions" | tee "$out/ratios.txt"
