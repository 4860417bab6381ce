#!/usr/bin/env bash
# Whether predictions hold on aged file systems: ext4, xfs and btrfs on the emulated disk, empty against aged by the
# images of benchmarks/aging.sh (AGING_WORK, AGING_SIZE and AGING_SCALE as there), each predicted by a profile of itself; then the aged
# ones once more by the profile of the empty one, which is what a user has who profiled a new file system.
#
#   sudo benchmarks/aging-validate.sh [OUTPUT-DIRECTORY [OPTION...]]
#
# Takes about half an hour; what was stopped goes on when it is started again with the same directory. OPTIONs go to
# `fsage validate`. Goal: the error on aged file systems no larger than on empty ones. Needs root, /dev/fuse, jq and mkfs.
set -euo pipefail
cd "$(dirname "$0")/.."
. benchmarks/machine.sh
out=${1:-benchmarks/runs/$(date +%Y-%m-%d)-aging-validate}
images=${AGING_WORK:-/var/tmp/fsage-aging}/${AGING_SIZE:-1G}-${AGING_SCALE:-0.3}
fsage=$(realpath "${FSAGE:-target/release/fsage}")
[ "$(id -u)" = 0 ] && [ -e /dev/fuse ] || { echo "not run: needs root and /dev/fuse" >&2; exit 1; }
command -v jq >/dev/null || { echo "not run: needs jq" >&2; exit 1; }
for kind in ext4 xfs btrfs; do
    [ -e "$images/$kind.fsi" ] || { echo "not run: $images/$kind.fsi is made by benchmarks/aging.sh" >&2; exit 1; }
done
mkdir -p "$out"
out=$(realpath "$out")
{
    echo "command: benchmarks/aging-validate.sh ${*:2}"
    machine
} >>"$out/machine.txt"
cp benchmarks/aging-validate.toml "$out/plan.toml"
# The plan names images of this directory.
cd "$images"
"$fsage" validate "$out/plan.toml" --allow-commands --allow-paths --output "$out" --resume \
    "${@:2}" >"$out/tables.txt" || [ $? = 3 ]

# The same runs, the aged targets (3 to 5) predicted by the profiles of the empty ones (0 to 2).
swapped=$(mktemp -d)
trap 'rm -rf "$swapped"' EXIT
cp -a "$out/." "$swapped"
for target in 0 1 2; do
    cp "$out/target$target.fsp" "$swapped/target$((target + 3)).fsp"
done
"$fsage" validate --again "$swapped" --json >"$out/by-empty-profiles.json" || [ $? = 3 ]
jq -rn --slurpfile own "$out/validation.json" --slurpfile empty "$out/by-empty-profiles.json" '
    def error($of; $workload; $target):
        first($of[0].pairs[] | select(.workload == $workload and .target == $target)) as $p
        | ($p.equal_speed.error // $p.error) * 100;
    def percent: round | if . > 0 then "+\(.) %" else "\(.) %" end;
    def ms($workload; $target):
        first($own[0].pairs[] | select(.workload == $workload and .target == $target)).measured_ns / 1e6 | round;
    def row: "| " + join(" | ") + " |";
    [$own[0].workloads[].name] as $workloads | ["ext4", "xfs", "btrfs"] as $kinds
    | (["workload", "on", "measured, ms, empty → aged", "error: empty", "aged", "aged, by the profile of the empty one"] | row),
      (["---", "---", "---:", "---:", "---:", "---:"] | row),
      ($workloads[] as $w | $kinds[] as $k
        | [$w, $k, "\(ms($w; "\($k) empty")) → \(ms($w; "\($k) aged"))",
           (error($own; $w; "\($k) empty") | percent), (error($own; $w; "\($k) aged") | percent),
           (error($empty; $w; "\($k) aged") | percent)] | row),
      ([[$own, "empty"], [$own, "aged"], [$empty, "aged"]]
        | map(. as [$of, $state] | [$workloads[] as $w | $kinds[] as $k | error($of; $w; "\($k) \($state)") | fabs] | add / length | round | "\(.) %")
        | ["**average, absolute**", "", ""] + . | row)' | tee "$out/aged.md"
