#!/bin/sh
# Operations per second of `predict` on one core, from memory and from a trace file with its decoding,
# and its memory for a million files.
# Usage: benchmarks/predict-throughput.sh [OPERATIONS] [FILES]
# Kept results: benchmarks/runs/. Expected: at least 3 million operations per second from memory, under
# 1 GiB. The file is written to the temporary directory and removed.
set -eu
cd "$(dirname "$0")/.."
cargo build --release --quiet -p fsage-predict --example predict_throughput
bin="${CARGO_TARGET_DIR:-target}/release/examples/predict_throughput"
if command -v taskset >/dev/null; then
    exec taskset -c 0 "$bin" "$@"
fi
exec "$bin" "$@"
