#!/usr/bin/env bash
# Whether the intervals of `fsage bench` hold what they promise: one small experiment (ten runs of a short
# PostMark on a RAM-backed ext4, each of two equal configurations A and B) is repeated; then it is counted
#
# * in how many repetitions the 95 % interval of a configuration's mean covers the mean of all runs of all
#   repetitions (expected: 88 to 100 %);
# * in how many the 95 % interval of the difference of A and B (Welch) holds 0, which is "no significant
#   difference" (expected: at least 90 %).
#
#   sudo benchmarks/calibration.sh [OUTPUT-DIRECTORY [REPETITIONS]]
#
# The repetitions take turns, one round of runs each (`--resume` with one run more), in a process of its own
# each time: a machine that drifts over minutes drifts for all of them, and what is left is what an interval
# can know. With BACK_TO_BACK=1 each is made whole before the next, and intervals of a few seconds' runs are
# held against minutes of the machine. 40 repetitions take about seven minutes on a quiet machine. Needs root
# and jq.
set -euo pipefail
cd "$(dirname "$0")/.."
. benchmarks/machine.sh
out=${1:-benchmarks/runs/$(date +%Y-%m-%d)-calibration}
repetitions=${2:-40}
fsage=${FSAGE:-target/release/fsage}
command -v jq >/dev/null || { echo "not run: needs jq" >&2; exit 1; }

mkdir -p "$out"
cp benchmarks/calibration.toml "$out/plan.toml"
{
    echo "command: benchmarks/calibration.sh, $repetitions repetitions${BACK_TO_BACK:+, back to back}"
    machine
} >"$out/machine.txt"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rounds=$(seq 10)
[ -n "${BACK_TO_BACK:-}" ] && rounds=10
for round in $rounds; do
    for i in $(seq "$repetitions" | shuf --random-source=<(yes "$round")); do
        "$fsage" bench benchmarks/calibration.toml --seed "$i" --runs "$round" --resume \
            --output "$work/$i" >"$work/$i.txt" 2>&1 || { cat "$work/$i.txt" >&2; exit 1; }
    done
    printf '\r%s of 10 runs' "$round" >&2
done
echo >&2
for i in $(seq "$repetitions"); do
    # All that the statistics are made of; series and latencies are left out.
    jq -c 'del(.configurations[].runs[] | .phases, .series)
           | if '"$i"' > 1 then del(.machine, .configurations[].target_record) else . end' \
        "$work/$i/experiment.json" >"$out/samples-$i.json"
done

# The quantile of Student's t for 97.5 %, between whole degrees of freedom by interpolation: Welch's lie
# between 9 and 18 here. `fsage compare` says the same of each experiment.
jq -s --arg metrics "${METRICS:-elapsed system}" '
    def mean: add / length;
    def variance: mean as $m | (map((. - $m) * (. - $m)) | add) / (length - 1);
    def quantile: [2.26216, 2.22814, 2.20099, 2.17881, 2.16037, 2.14479, 2.13145, 2.11991, 2.10982,
            2.10092] as $t
        | ([[. - 9, 0] | max, 8.999999] | min) as $x | ($x | floor) as $i
        | $t[$i] + ($x - $i) * ($t[$i + 1] - $t[$i]);
    def samples($c; $m): .configurations[$c].runs | map(.metrics[$m]);
    # Whether the interval of the difference holds 0.
    def alike($a; $b):
        ($a | variance / length) as $u | ($b | variance / length) as $v
        | (($u + $v) * ($u + $v) / ($u * $u / (($a | length) - 1) + $v * $v / (($b | length) - 1)))
            as $df
        | (($a | mean) - ($b | mean) | fabs) <= ($df | quantile) * (($u + $v) | sqrt);
    . as $all
    | ($metrics | split(" ")) | map(. as $m
        | ([$all[] | samples(0; $m)[], samples(1; $m)[]] | mean) as $grand
        | [$all[] | .configurations[] | .metrics[] | select(.metric == $m)] as $intervals
        | ([$intervals[] | select(.low <= $grand and $grand <= .high)] | length) as $covering
        | ([$all[] | select(alike(samples(0; $m); samples(1; $m)))] | length) as $alike
        | {
            metric: $m,
            experiments: ($all | length),
            grand_mean_ns: ($grand | round),
            intervals: ($intervals | length),
            covering: $covering,
            coverage_percent: (1000 * $covering / ($intervals | length) | round / 10),
            no_significant_difference: $alike,
            no_significant_difference_percent: (1000 * $alike / ($all | length) | round / 10),
            median_half_width_percent:
                ([$intervals[] | 100 * .half_width / .mean] | sort | .[length / 2 | floor] * 10 | round / 10),
            runs: ([$all[].configurations[].runs[]] | length),
            marked_runs: ([$all[].configurations[].runs[] | select(.marks | length > 0)] | length)
        })' "$out"/samples-*.json >"$out/coverage.json"
cat "$out/coverage.json"
