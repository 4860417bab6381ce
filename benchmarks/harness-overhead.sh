#!/bin/sh
# What the executor adds to an operation: PostMark on the engine that does nothing.
# Usage: benchmarks/harness-overhead.sh [OUT.json]
# Goal: measured less the stream alone under 100 ns per operation (two clock readings included).
set -eu
cd "$(dirname "$0")/.."
out=${1:-benchmarks/runs/$(date +%Y-%m-%d)/harness-overhead.json}
mkdir -p "$(dirname "$out")"
cargo build --release --quiet -p fsage-exec --example harness_overhead
{
    echo "command: benchmarks/harness-overhead.sh"
    echo "kernel: $(uname -sr)"
    echo "cpu: $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2-), $(nproc) CPUs"
    echo "compiler: $(rustc -V)"
    echo "load before: $(cut -d' ' -f1-3 /proc/loadavg)"
} > "${out%.json}.txt"
"${CARGO_TARGET_DIR:-target}"/release/examples/harness_overhead > "$out"
cat "$out"
