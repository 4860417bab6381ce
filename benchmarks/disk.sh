#!/bin/sh
# The emulated disk in real time: lateness of requests and what fio sees, beside the model's figures.
# Usage: benchmarks/disk.sh [OUT-DIRECTORY]   (as root, with fio, on a quiet machine; about 90 s)
# Goal: p99 lateness under 1 ms.
set -eu
cd "$(dirname "$0")/.."
. benchmarks/machine.sh
out=${1:-benchmarks/runs/$(date +%Y-%m-%d)-disk}
fsage=${FSAGE:-target/release/fsage}
mkdir -p "$out"
dir=$(mktemp -d)
pid=
end() {
    # Only where a job has failed: the disk goes before its directory, and a second failure is said too.
    if [ -n "$pid" ]; then
        kill -INT "$pid" 2>/dev/null || :
        wait "$pid" || echo "fsage disk serve: exit status $?" >&2
    fi
    rm -rf "$dir"
}
trap end EXIT
{
    echo "command: benchmarks/disk.sh"
    machine
    echo "fio: $(fio --version)"
} > "$out/machine.txt"
: > "$out/results.jsonl"

job() { # model name options...: one line of results
    model=$1 name=$2
    shift 2
    echo reset > "$dir/m/control"
    fio --name="$name" --filename="$device" --direct=1 --output-format=json "$@" > "$dir/fio.json" 2>/dev/null
    python3 - "$dir/fio.json" "$dir/m/stats" "$model" "$name" >> "$out/results.jsonl" <<'P'
import json, sys
job = json.load(open(sys.argv[1]))["jobs"][0]
side = max(("read", "write"), key=lambda s: job[s]["io_bytes"])
stats = json.loads(open(sys.argv[2]).read())
print(json.dumps({"model": sys.argv[3], "job": sys.argv[4],
    "mean_us": round(job[side]["clat_ns"]["mean"] / 1e3, 1),
    "mb_s": round(job[side]["bw_bytes"] / 1e6, 2),
    "fsync_us": round(job["sync"]["lat_ns"]["mean"] / 1e3, 1) if job["sync"]["total_ios"] else None,
    "lateness": stats["lateness"]}))
P
    tail -n1 "$out/results.jsonl"
}

for model in hdd-7200 sata-ssd nvme-ssd; do
    mkdir -p "$dir/m"
    : > "$dir/said"
    "$fsage" disk serve "$model" --size 2G --mount "$dir/m" > "$dir/served" 2> "$dir/said" &
    pid=$!
    until device=$(grep -o '/dev/loop[0-9]*' "$dir/said"); do sleep 0.1; done
    "$fsage" disk show "$model" --json > "$out/$model.json"
    t="--runtime=5 --time_based"
    job "$model" random-read-4k --rw=randread --bs=4k --ioengine=psync $t
    job "$model" random-read-4k-32 --rw=randread --bs=4k --ioengine=libaio --iodepth=32 $t
    job "$model" sequential-start --rw=read --bs=1m --size=400m
    job "$model" sequential-end --rw=read --bs=1m --offset=1600m --size=400m
    job "$model" sequential-write --rw=write --bs=1m --size=400m
    job "$model" write-fsync-4k --rw=randwrite --bs=4k --fsync=1 --ioengine=psync $t
    kill -INT $pid
    wait $pid
    pid=
done
