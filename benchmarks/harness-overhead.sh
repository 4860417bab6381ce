#!/bin/sh
# What the executor adds to an operation: PostMark on the engine that does nothing.
# Usage: benchmarks/harness-overhead.sh [OUT.json]; goal: under 100 ns per operation measured.
set -eu
cd "$(dirname "$0")/.."
cargo build --release --quiet -p fsage-exec --example harness_overhead
out=${1:-benchmarks/runs/$(date +%Y-%m-%d)/harness-overhead.json}
mkdir -p "$(dirname "$out")"
"${CARGO_TARGET_DIR:-target}"/release/examples/harness_overhead > "$out"
cat "$out"
