# What every kept result says first of the machine that it was made on; sourced by the benchmarks.
machine() {
    echo "kernel: $(uname -sr)"
    echo "cpu: $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2-), $(nproc) CPUs"
    echo "load before: $(cut -d' ' -f1-3 /proc/loadavg)"
}

# For `benchmarks/NAME.sh [OUT]`: sets $out, where results are kept, with the machine's words; $fsage, what is measured; and
# $kept, a directory that goes with the script.
begin() {
    out=${2:-benchmarks/runs/$(date +%Y-%m-%d)-$1}
    fsage=${FSAGE:-target/release/fsage}
    mkdir -p "$out"
    kept=$(mktemp -d)
    trap 'rm -rf "$kept"' EXIT
    {
        echo "command: benchmarks/$1.sh"
        machine
    } >"$out/machine.txt"
}
