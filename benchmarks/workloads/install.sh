#!/usr/bin/env bash
# Installs what the workloads run, from Debian's packages (bookworm), as root. Services that packages start are
# kept from starting; nothing is configured.
set -euo pipefail
packages=(xfsprogs btrfs-progs fuse3 gcc make libc6-dev autoconf automake cmake ninja-build git python3
    python3-pip python3-setuptools python3-wheel zip unzip rsync tar gzip postgresql postgresql-contrib
    mariadb-server sysbench sqlite3 python3-plyvel nginx-light curl ripgrep fio dpkg borgbackup
    netpbm cpio squashfs-tools procmail rpm groff-base redis-server bonnie++ restic python3-lmdb
    fsmark rocksdb-tools mercurial subversion ccache qemu-utils 7zip notmuch etcd-server etcd-client fossil
    prometheus aria2 plocate rdiff-backup par2 logrotate slapd ostree reprepro tokyocabinet-bin zstd lz4 rdfind
    duplicity genisoimage db5.3-util aide brz pigz lrzip zpaq bup rclone squid lighttpd cvs rsyslog influxdb rrdtool
    global unison rsnapshot vim-tiny openssh-client openssh-sftp-server doxygen xapian-omega xapian-tools apache2-bin
    media-types git-annex golang-go firebird3.0-server-core firebird3.0-utils systemd-journal-remote
    dar python3-tdb tdb-tools default-jdk-headless bogofilter-sqlite isync hugo snapraid man-db darcs umoci skopeo aptly
    python3-h5py python3-zarr gdbmtool beanstalkd gddrescue rustc cargo quilt plzip samba smbclient dovecot-core
    exim4-daemon-light zookeeper python3-kazoo ruby ffmpeg texlive-latex-base latexmk samtools python3-whisper nbdkit libnbd-bin
    clamav mtools hdf5-tools ncbi-blast+ spamassassin pass gnupg erofs-utils parallel lftp python3-pyftpdlib
    nodejs php-cli php-sqlite3 casync python3-sphinx flac python3-pytest python3-diskcache xdelta3 jdupes
    rdfind cscope cppcheck zpaq emacs-nox stress-ng acl attr python3-pandas meson)
missing=()
for package in "${packages[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
[ "${#missing[@]}" -gt 0 ] || exit 0
# A package's service would use the disk beside what is measured.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
fi
apt-get update -q
DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
