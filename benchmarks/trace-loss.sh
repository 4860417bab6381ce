#!/bin/bash
# What a capture loses under load: trace-loss.sh DIRECTORY [SECONDS] [FSAGE] [OPTION…]
#
# Four, then eight processes stat a file, and read a page of another, as fast as they can, in
# DIRECTORY (on any file system; a RAM-backed one for figures that can be compared), for SECONDS
# (3). OPTIONs go to `fsage trace` (--ring-mib 64, --no-throttle). Prints for each: calls a second
# as the processes counted them, traced and untraced; what the trace holds and what it lost; for how
# long calls were held back; the tracer's largest memory. Every call must be either in the trace or
# counted as lost. Needs cc, GNU time and jq; eBPF needs root.
set -euo pipefail
directory=${1:?a directory to work in}
seconds=${2:-3}
fsage=${3:-fsage}
options=("${@:4}")
work=$(mktemp -d)
place=$directory/trace-loss-$$
mkdir "$place"
place=$(realpath "$place")
trap 'rm -rf "$work" "$place"' EXIT
cat > "$work/hot.c" <<'C'
/* hot PROCESSES SECONDS: prints how many calls of stat and pread were made. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(int count, char **arguments)
{
	int processes = atoi(arguments[1]);
	double seconds = atof(arguments[2]);
	long *calls = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char page[4096] = {0};
	int made = open("file", O_CREAT | O_RDWR, 0600);
	if (count != 3 || write(made, page, sizeof(page)) != sizeof(page))
		return 2;
	for (int n = 0; n < processes; n++) {
		if (fork())
			continue;
		int fd = open("file", O_RDONLY);
		struct timespec begun, now;
		clock_gettime(CLOCK_MONOTONIC, &begun);
		do {
			for (int k = 0; k < 500; k++) {
				struct stat st;
				stat("file", &st);
				if (pread(fd, page, sizeof(page), 0) != sizeof(page))
					_exit(1);
			}
			calls[n] += 1000;
			clock_gettime(CLOCK_MONOTONIC, &now);
		} while (now.tv_sec - begun.tv_sec + (now.tv_nsec - begun.tv_nsec) / 1e9 < seconds);
		_exit(0);
	}
	int bad = 0, status;
	while (wait(&status) > 0)
		bad |= status;
	long all = 0;
	for (int n = 0; n < processes; n++)
		all += calls[n];
	fprintf(stderr, "calls %ld\n", all);
	return bad != 0;
}
C
cc -O2 -o "$work/hot" "$work/hot.c"
cd "$place"
echo "options: ${options[*]:-none}"
for processes in 4 8; do
    untraced=$("$work/hot" "$processes" "$seconds" 2>&1 | awk '/^calls/ {print $2}')
    status=0
    /usr/bin/time -o "$work/memory" -f "%M %e" "$fsage" trace --json --under "$place" \
        "${options[@]}" -o "$work/trace.fst" -- "$work/hot" "$processes" "$seconds" \
        > "$work/summary" 2> "$work/said" || status=$?
    calls=$(awk '/^calls/ {print $2}' "$work/said")
    read -r memory elapsed < <(tail -1 "$work/memory")
    jq -r --argjson calls "$calls" --argjson untraced "$untraced" --argjson seconds "$seconds" \
        --argjson memory "$memory" --argjson elapsed "$elapsed" --argjson processes "$processes" '
        def rate: . / $seconds | round;
        "\($processes) processes: \($untraced | rate) calls/s untraced, \($calls | rate) traced",
        "  in the trace \(.operations), lost \(.operations_lost) of \($calls) calls (\(.operations_lost * 100 / $calls | . * 100 | round / 100) %)",
        "  held back \(.throttled_calls // 0) calls by \((.throttled_ns // 0) / 1e9 * 100 | round / 100) s in all",
        "  tracer: \($memory / 1024 | round) MiB, done \(($elapsed - $seconds) * 10 | round / 10) s after the processes",
        if .operations + .operations_lost >= $calls then empty
        else "  NOT COUNTED: \($calls - .operations - .operations_lost)" end
    ' "$work/summary"
    [ "$status" = 0 ] || { echo "  fsage ended with $status:"; tail -3 "$work/said"; }
done
