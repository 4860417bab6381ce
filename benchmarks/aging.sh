#!/usr/bin/env bash
# What aging costs: ext2, ext4, xfs and btrfs on an emulated 7200 rpm disk, empty against aged by home directories
# (home-2001: 1 GiB, 215 days with three tenths of its activity, 75 % full), by the sequential I/O benchmark and by the hot-file benchmark
# (benchmarks/aging-seqio.toml, benchmarks/aging-hot.toml).
#
#   sudo benchmarks/aging.sh [OUTPUT-DIRECTORY [OPTION...]]
#   benchmarks/aging.sh --tables OUTPUT-DIRECTORY          # the tables of docs/aging.md, from the results
#
# Ages in memory first and keeps the images in AGING_WORK (/var/tmp/fsage-aging), by size and activity. Takes at most 35 minutes; what was
# stopped goes on when it is started again with the same directory. OPTIONs go to `fsage bench`, as --runs 3.
# AGING_SCALE (0.3) is the share of the activity, AGING_SIZE (1G) the size of each file system. Needs root, /dev/fuse, jq and
# the four mkfs.
set -euo pipefail
cd "$(dirname "$0")/.."
. benchmarks/machine.sh

tables() {
    jq -rn --slurpfile seq <(zcat -f "$1"/seqio/experiment.json*) --slurpfile hot <(zcat -f "$1"/hot/experiment.json*) '
        def kinds: ["ext2", "ext4", "xfs", "btrfs"];
        def one($all; $target; $kind):
            first($all[0].configurations[] | select(.target == $target and .parameters["target.kind"] == $kind));
        def digits($n): . * pow(10; $n) | round / pow(10; $n) | tostring;
        # Mean and half the width of its 95 % interval; ? where that says no more than that it is positive.
        def shown($c; $name; $scale; $n):
            (first($c.metrics[] | select(.metric == $name)) // null) as $m
            | if $m == null then "?" else
                ($m.mean * $scale | digits($n))
                + (if $m.low == null then "" elif $m.high - $m.low > 2 * $m.mean then " ± ?"
                   else " ± " + (($m.high - $m.low) / 2 * $scale | digits($n)) end) end;
        def pair($all; $kind; $name; $scale; $n):
            shown(one($all; "empty"; $kind); $name; $scale; $n) + " → "
            + shown(one($all; "aged"; $kind); $name; $scale; $n);
        def row: "| " + join(" | ") + " |";
        def sizes: [16, 32, 64, 128, 256, 512 | "\(.) KiB"] + [1, 2, 4, 8, 16, 32 | "\(.) MiB"];
        def by_size($what; $name; $scale; $n):
            $what, "", ([$what | "file size"] + kinds | row), (["---"] + (kinds | map("---:")) | row),
            (sizes[] as $size | [$size] + (kinds | map(pair($seq; .; $name + $size; $scale; $n))) | row), "";
        def files($c): $c.runs[0].phases[0].result.layout;
        "Runs: " + ([$seq[0].configurations[].runs | length] | "\(min) to \(max) (sequential), ")
            + ([$hot[0].configurations[].runs | length] | "\(min) to \(max) (hot files)"), "",
        by_size("Read, MiB/s, empty → aged (Figures 3.1, 3.2, 3.5 A):"; "bytes_per_s:read "; 1 / 1048576; 1),
        by_size("Made and written, MiB/s (Figure 3.5 A):"; "bytes_per_s:create "; 1 / 1048576; 1),
        by_size("Layout score of the files made (Figure 3.5 B):"; "layout_score:create "; 1; 3),
        "Hot files, copied to an empty file system → where aging put them (Table 3.3; 1996, Table 2):", "",
        (["", "files", "layout score", "split files", "read, MiB/s", "overwritten, MiB/s", "layout score after that"] | row),
        (["---", "---:", "---:", "---:", "---:", "---:", "---:"] | row),
        (kinds[] as $kind
            | [$kind,
                (files(one($hot; "aged"; $kind)).files | tostring),
                pair($hot; $kind; "layout_score:read"; 1; 3),
                ([one($hot; "empty", "aged"; $kind) | files(.).split.split // "-" | tostring] | join(" → ")),
                pair($hot; $kind; "bytes_per_s:read"; 1 / 1048576; 1),
                pair($hot; $kind; "bytes_per_s:overwrite"; 1 / 1048576; 1),
                pair($hot; $kind; "layout_score:overwrite"; 1; 3)] | row)'
}

if [ "${1:-}" = --tables ]; then
    tables "${2:?the output directory}"
    exit
fi
out=${1:-benchmarks/runs/$(date +%Y-%m-%d)-aging}
size=${AGING_SIZE:-1G} scale=${AGING_SCALE:-0.3} work=${AGING_WORK:-/var/tmp/fsage-aging}
work=$work/$size-$scale
fsage=$(realpath "${FSAGE:-target/release/fsage}")
[ "$(id -u)" = 0 ] || { echo "not run: needs root" >&2; exit 1; }
for tool in jq mkfs.ext2 mkfs.ext4 mkfs.xfs mkfs.btrfs; do
    command -v "$tool" >/dev/null || { echo "not run: needs $tool" >&2; exit 1; }
done
[ -e /dev/fuse ] || { echo "not run: needs /dev/fuse" >&2; exit 1; }
mkdir -p "$out" "$work"
out=$(realpath "$out") work=$(realpath "$work")
{
    echo "command: benchmarks/aging.sh, $size, scale $scale, ${*:2}"
    machine
} >>"$out/machine.txt"
for plan in seqio hot; do
    sed "s/size=1G/size=$size/" "benchmarks/aging-$plan.toml" >"$work/$plan.toml"
    cp "$work/$plan.toml" "$out/$plan.toml"
done
cd "$work"

# The same simulated days for each, written in memory with their data.
[ -e home.fst ] || "$fsage" -q age generate --profile home-2001 --size "$size" --scale "$scale" --fill 75% -o home.fst
"$fsage" show home.fst >"$out/workload.txt"
for kind in ext2 ext4 xfs btrfs; do
    [ -e "$kind.fsi" ] && continue
    # Exit code 3: something met a full disk, which aged-KIND.json counts.
    "$fsage" age apply home.fst "scratch:$kind,size=$size" --no-score --keep "$kind.fsi" --json \
        >"aged-$kind.json" || [ $? = 3 ]
    "$fsage" layout "$kind.fsi" --free --json >"layout-$kind.json"
done
cp aged-*.json layout-*.json "$out"
# The tree as it is in the end, to be copied to empty file systems.
[ -e tree.fss ] || "$fsage" -q run "cmd:$fsage -q snapshot .. -o $work/tree.fss" aged:ext4.fsi >/dev/null

for plan in seqio hot; do
    resume=()
    [ -e "$out/$plan/runs.jsonl" ] && resume=(--resume)
    "$fsage" bench "$plan.toml" ${resume[@]+"${resume[@]}"} -o "$out/$plan" "${@:2}" >"$out/$plan.txt" || [ $? = 3 ]
done
cd - >/dev/null
tables "$out" | tee "$out/tables.md"
