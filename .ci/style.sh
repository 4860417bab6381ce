#!/usr/bin/env bash
# Rules that no compiler checks: modules stay short, nothing is left unfinished.
set -euo pipefail
cd "$(dirname "$0")/.."
bad=0

while read -r file; do
    lines=$(awk '/^#\[cfg\(test\)\]/{exit} {n++} END{print n+0}' "$file")
    if [ "$lines" -gt 600 ]; then
        echo "$file: $lines lines without its tests; at most 600, or it does two jobs"
        bad=1
    fi
done < <(git ls-files 'crates/*.rs' | grep -vE '/tests(/|\.rs$)')

if git grep -nE 'todo!\(|unimplemented!\(|FIX''ME|XX''X|HA''CK' -- '*.rs' '*.c' '*.h' '*.sh'; then
    echo "unfinished by its own word"
    bad=1
fi

if git grep -nE '#\[ignore' -- '*.rs'; then
    echo "a test that never runs"
    bad=1
fi
# What a person sees goes through the writers that escape it; daemons answer fsage itself on their stdout.
if git grep -nE 'io::(stdout|stderr)\(\)|e?print(ln)?!\(' -- 'crates/*/src/*.rs' ':!crates/xtask' ':!crates/testing' |
    grep -vE '^crates/cli/src/(out|ui)\.rs:|verbs/(disk|slowfs)\.rs:[0-9]+:.*(obey|answers)|(running/command|format/src/whole)\.rs:.*as_fd' ; then
    echo "text past the writers of crates/cli/src/out.rs and ui.rs"
    bad=1
fi
if git grep -nE '"not run: ' -- 'crates/*.rs' ':!crates/xtask' ':!crates/testing'; then
    echo "a test that does not run and is not counted: fsage_testing::not_run is"
    bad=1
fi
exit "$bad"
