#!/bin/sh
# Operations a second over mem:fast, one stream and eight; and over a target that does nothing, in virtual time as well.
# Usage: benchmarks/virtual-throughput.sh [OUT.json]
# Goal on mem:fast: 1,000,000 with one stream, 500,000 with eight.
# THROUGHPUT names a build of the example that is there already.
set -eu
cd "$(dirname "$0")/.."
. benchmarks/machine.sh
out=${1:-benchmarks/runs/$(date +%Y-%m-%d)-virtual/throughput.json}
mkdir -p "$(dirname "$out")"
program=${THROUGHPUT:-}
if [ -z "$program" ]; then
    cargo build --release --quiet -p fsage-exec --example virtual_throughput
    program="${CARGO_TARGET_DIR:-target}/release/examples/virtual_throughput"
fi
{
    echo "command: benchmarks/virtual-throughput.sh"
    machine
    echo "compiler: $(rustc -V)"
} > "${out%.json}.txt"
"$program" | tee "$out"
