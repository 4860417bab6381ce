# What every kept result says first of the machine that it was made on; sourced by the benchmarks.
machine() {
    echo "kernel: $(uname -sr)"
    echo "cpu: $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2-), $(nproc) CPUs"
    echo "load before: $(cut -d' ' -f1-3 /proc/loadavg)"
}
