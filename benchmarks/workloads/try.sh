#!/usr/bin/env bash
# Runs workloads, sealed ones too, and says how long they take and how much the number of their operations varies. Nothing
# is predicted. As root:
#
#   benchmarks/workloads/try.sh OUTPUT-DIRECTORY RUNS TARGET NAME...
#
#   benchmarks/workloads/try.sh out 3 scratch:ext4,on=disk:hdd-7200 pgbench dpkg
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$1 runs=$2 target=$3
shift 3
fsage=$(realpath "${FSAGE:-$here/../../target/release/fsage}")
export MATRIX_INPUTS=${MATRIX_INPUTS:-/var/tmp/fsage-inputs}
"$here/inputs.py" "$MATRIX_INPUTS"
mkdir -p "$out"
out=$(realpath "$out")
{
    printf 'runs = %d\none_cpu = true\nkeep_going = true\n[[target]]\nspec = "%s"\n' "$runs" "$target"
    for name; do
        printf '[[workload]]\nname = "%s"\nsetup = "%s setup"\n' "$name" "$here/$name"
        printf 'spec = "cmd: %s trace -q --ring-mib 128 --under . -o %s-$$.fst -- %s run >/dev/null"\n' \
            "$fsage" "$out/$name" "$here/$name"
    done
} >"$out/plan.toml"
status=0
"$fsage" bench "$out/plan.toml" --allow-commands -o "$out/bench" --json >"$out/result.json" || status=$?
for name; do
    for trace in "$out/$name"-*.fst; do
        "$fsage" show "$trace" --json
    done | python3 -c '
import json, statistics, sys
decoder, text, shown = json.JSONDecoder(), sys.stdin.read().strip(), []
while text:
    one, end = decoder.raw_decode(text)
    shown.append(one)
    text = text[end:].lstrip()
def spread(values):
    mean = statistics.mean(values)
    return mean, 100 * statistics.stdev(values) / mean if len(values) > 1 and mean else 0
(ops, vary), (span, varies) = spread([s["operations"] for s in shown]), spread([s["end"]["elapsed_ns"] / 1e9 for s in shown])
lost = sum(s["operations_lost"] for s in shown)
print("%-16s %2d runs  %8.0f operations +-%5.2f %%  %6.2f s +-%5.1f %%  %d lost" % (
    sys.argv[1], len(shown), ops, vary, span, varies, lost))' "$name"
done
exit "$status"
