#!/bin/sh
# A checkout as a workload: between two revisions of a repository in which half of the files differ.
#
#   sh checkout.sh setup FILES    makes ./repository with FILES files in two revisions
#   sh checkout.sh run            checks out one and the other, and looks at the status
#
# As a workload of fsage, in a target directory that was set up before:
#   cmd:sh /path/to/checkout.sh run
# Needs git; its own configuration is left aside.
set -eu
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
export GIT_AUTHOR_NAME=fsage GIT_AUTHOR_EMAIL=fsage@example.invalid
export GIT_COMMITTER_NAME=fsage GIT_COMMITTER_EMAIL=fsage@example.invalid
export GIT_AUTHOR_DATE=2001-01-01T00:00:00Z GIT_COMMITTER_DATE=2001-01-01T00:00:00Z

write() {
    i=$1
    while [ "$i" -lt "$files" ]; do
        directory="d$((i / 20))"
        mkdir -p "$directory"
        awk -v f="$i" -v r="$3" 'BEGIN {
            for (k = 0; k < 20 + f * 37 % 200; k++) printf "line %d of file %d in revision %d\n", k, f, r
        }' >"$directory/f$i.txt"
        i=$((i + $2))
    done
}

case "${1:-}" in
setup)
    files=${2:?"number of files"}
    git init -q repository
    cd repository
    git config gc.auto 0
    write 0 1 1
    git add .
    git commit -qm one
    git tag one
    write 0 2 2
    git add .
    git commit -qm two
    git tag two
    ;;
run)
    cd repository
    git checkout -q one
    git status --porcelain
    git checkout -q two
    git status --porcelain
    ;;
*)
    echo "usage: checkout.sh setup FILES | run" >&2
    exit 2
    ;;
esac
