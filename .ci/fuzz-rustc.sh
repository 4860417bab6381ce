#!/bin/sh
# rustc as fuzz.sh wants it: with a fuzzer's instrumentation of fsage's own crates and of the fuzz targets. What they
# depend on is as it is: to instrument that too takes twice as long, and nobody looks for faults there.
# The instrumentation is cargo-fuzz's, without a sanitizer: a stable toolchain has it.
case "$CARGO_PKG_NAME $*" in
    *"--crate-name build_script"*) ;;
    fsage-*)
        for set in level=4 inline-8bit-counters pc-table trace-compares; do
            set -- "$@" "-Cllvm-args=-sanitizer-coverage-$set"
        done
        set -- "$@" -Cpasses=sancov-module
        ;;
esac
exec "$@"
