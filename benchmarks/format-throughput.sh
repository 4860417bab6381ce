#!/bin/sh
# Bytes per operation, write and read rate and memory of the trace format.
#
# usage: benchmarks/format-throughput.sh [OPERATIONS] [REPETITIONS]
#
# Prints one line of JSON per repetition: a PostMark-like trace of OPERATIONS operations (default
# 2000000) written and read back by one thread. Reading is the figure that `predict` depends on.
set -eu
cd "$(dirname "$0")/.."
operations=${1:-2000000}
repetitions=${2:-5}
cargo build --release --quiet -p fsage-format --example format_throughput
target=${CARGO_TARGET_DIR:-target}
i=0
while [ "$i" -lt "$repetitions" ]; do
    "$target/release/examples/format_throughput" "$operations"
    i=$((i + 1))
done
