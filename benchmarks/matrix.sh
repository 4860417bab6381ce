#!/usr/bin/env bash
# How far predictions can be trusted, over the whole matrix: ext2, ext4, xfs and btrfs in memory and on
# an emulated 7200 rpm disk, the workloads of one half of benchmarks/matrix.toml.
#
#   sudo benchmarks/matrix.sh OUTPUT-DIRECTORY open|sealed [ram|disk|all [OPTION...]]
#
# The open half is what the model may be changed by. The sealed half is run when a version is finished; what its
# predictions are is not looked at before.
#
# It ends by itself after MATRIX_MINUTES (55), and so it does when interrupted; started again with the same directory
# it goes on, until it says that all is measured. Parts are judged together: `ram` and `disk` name the targets that are
# measured now (the disk's predictions need the traces of `ram`, so that comes first), OPTIONs go to `fsage validate`,
# as --workload pgbench, another part. Each half has a directory of its own in OUTPUT-DIRECTORY.
#
# MATRIX_TREE is what "source tree" copies, searches, archives and deletes (default /usr/include/linux), MATRIX_INPUTS
# where inputs are made (default /var/tmp/fsage-inputs). Needs root, /dev/fuse, and the programs that
# benchmarks/workloads/install.sh installs.
set -euo pipefail
cd "$(dirname "$0")/.."
. benchmarks/machine.sh
usage() { sed -n '5p' "$0" | cut -c3- >&2 && exit 2; }
[ $# -ge 2 ] || usage
out=$1/$2 half=$2 group=${3:-all}
shift $(($# < 3 ? $# : 3))
fsage=${FSAGE:-target/release/fsage}

case $half in
open) sealed=() ;;
sealed) sealed=(--sealed) ;;
*) usage ;;
esac
targets=()
case $group in
all) ;;
ram | disk) for kind in ext4 xfs btrfs ext2; do targets+=(--target "$kind $group"); done ;;
*) usage ;;
esac
for tool in mkfs.xfs mkfs.btrfs sysbench borg rg nginx cmake autoconf fio rsync pamscale cpio \
    mksquashfs procmail rpmbuild groff redis-server sqlite3 git unzip bonnie++ restic fs_mark db_bench hg svn \
    ccache qemu-img 7zz notmuch etcd etcdctl fossil \
    promtool aria2c updatedb rdiff-backup par2 logrotate slapadd ostree reprepro tchtest zstd lz4 rdfind \
    qemu-io duplicity genisoimage db5.3_load aide brz pigz lrzip zpaq bup rclone squid lighttpd cvs rsyslogd influxd \
    rrdtool gtags unison rsnapshot vim.tiny sftp doxygen omindex xapian-compact apache2 git-annex go isql-fb journalctl dar tdbbackup javac \
    bogofilter mbsync hugo snapraid mandb darcs umoci skopeo aptly gdbmtool beanstalkd \
    ddrescue cargo quilt plzip smbd smbclient dovecot exim4 java gem ffmpeg pdflatex makeindex latexmk samtools nbdkit nbdcopy \
    clamscan mcopy h5repack blastn sa-learn pass mkfs.erofs parallel lftp \
    node php casync flac metaflac xdelta3 jdupes rdfind cscope cppcheck zpaq emacs stress-ng setfacl setfattr meson; do
    command -v "$tool" >/dev/null ||
        { echo "not run: needs $tool; benchmarks/workloads/install.sh installs what it needs" >&2; exit 1; }
done
/usr/bin/python3 -c 'import lmdb, plyvel, tdb, h5py, zarr, kazoo, whisper, pyftpdlib, sphinx, pytest, diskcache, pandas' 2>/dev/null ||
    { echo "not run: needs python3-lmdb, -plyvel, -tdb, -h5py, -zarr, -kazoo, -whisper, -pyftpdlib, -sphinx, -pytest, -diskcache and -pandas; benchmarks/workloads/install.sh installs them" >&2; exit 1; }
[ -e /dev/fuse ] || { echo "not run: needs /dev/fuse" >&2; exit 1; }

export MATRIX_WORKLOADS=$PWD/benchmarks/workloads MATRIX_INPUTS=${MATRIX_INPUTS:-/var/tmp/fsage-inputs}
benchmarks/workloads/halves.sh --check
benchmarks/workloads/inputs.py "$MATRIX_INPUTS"
mkdir -p "$out"
cp benchmarks/matrix.toml "$out/plan.toml"
rm -rf "$out/workloads"
cp -r benchmarks/workloads "$out/workloads"
{
    echo "command: benchmarks/matrix.sh, the $half half, $group $*"
    machine
    echo "inputs: $(cat "$MATRIX_INPUTS/made-by")"
    echo "tree: ${MATRIX_TREE:-/usr/include/linux}, $(find "${MATRIX_TREE:-/usr/include/linux}" | wc -l) entries"
} >>"$out/machine.txt"
status=0
timeout --foreground --preserve-status --signal=INT "${MATRIX_MINUTES:-55}m" \
    "$fsage" validate benchmarks/matrix.toml --allow-commands --output "$out" --resume \
    ${sealed[@]+"${sealed[@]}"} ${targets[@]+"${targets[@]}"} "$@" >"$out/tables.txt" || status=$?
cat "$out/tables.txt"
[ "$status" != 130 ] || echo "not all is measured: go on with the same command" >&2
exit "$status"
