# Sourced first by each workload, in the directory of a run: `NAME setup` prepares it, unmeasured, `NAME run` is what is
# measured. All that a workload writes stays in that directory; what it starts has ended when it ends.
set -eu
: "${MATRIX_INPUTS:?failed to find the inputs: set MATRIX_INPUTS to the directory that inputs.py made}"
PATH=/usr/sbin:/usr/bin:/sbin:/bin
HOME=$PWD/home TMPDIR=$PWD/tmp
LC_ALL=C TZ=UTC PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1
# Two commits of one tree have one name.
GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000' GIT_CONFIG_NOSYSTEM=1
export PATH HOME TMPDIR LC_ALL TZ PYTHONHASHSEED PYTHONDONTWRITEBYTECODE GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL \
    GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_DATE GIT_CONFIG_NOSYSTEM
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
in=$MATRIX_INPUTS
python=/usr/bin/python3

case ${1:-} in
setup) mkdir -p "$HOME" "$TMPDIR" ;;
run) ;;
*) echo "usage: ${0##*/} setup|run, in an empty directory" >&2 && exit 2 ;;
esac

# Copies some directories of the tree to ./tree, file by file in the order in which they came to be.
grow_tree() {
    mkdir tree
    grep "^d[$1]/" "$in/tree.order" | tar -cf - -C "$in/tree" -T - | tar -xf - -C tree
}

# Waits until a command succeeds, for half a minute.
until_ready() {
    for _ in $(seq 300); do
        ! "$@" >/dev/null 2>&1 || return 0
        sleep 0.1
    done
    echo "not ready: $*" >&2
    return 1
}
