# blk.sh TARGET NAME: run workload with block events
set -eu
B=benchmarks/workloads
export MATRIX_INPUTS=/var/tmp/fsage-inputs
out=/tmp/blk-$2; rm -rf $out; mkdir -p $out
printf 'runs = 1\none_cpu = true\nkeep_going = true\n[[target]]\nspec = "%s"\n[[workload]]\nname = "%s"\nsetup = "%s setup"\nspec = "cmd: %s trace -q --ring-mib 128 --under . -o %s/t.fst -- %s run >/dev/null"\n' "$1" $2 $B/$2 fsage $out $B/$2 > $out/plan.toml
T=/sys/kernel/tracing
echo 0 > $T/tracing_on; echo > $T/trace; echo 8192 > $T/buffer_size_kb; echo mono > $T/trace_clock
for e in block_rq_issue block_rq_complete; do echo 1 > $T/events/block/$e/enable; done
echo 1 > $T/tracing_on
fsage bench $out/plan.toml --allow-commands -o $out/bench --json > $out/result.json 2>$out/err || cat $out/err
echo 0 > $T/tracing_on
for e in block_rq_issue block_rq_complete; do echo 0 > $T/events/block/$e/enable; done
cat $T/trace > $out/blk.txt; echo > $T/trace
wc -l $out/blk.txt
