# A backup beside a server: five threads serve pages as a web server does and append to a log, while one process reads
# another tree file by file and writes an archive of it.
set $nfiles=500
set $nold=1000
set $nthreads=5
set $size=cvar(type=cvar-gamma,parameters=mean:16384;gamma:1.5)

define fileset name=pages, path=/srv/www, size=$size, entries=$nfiles, dirwidth=20, prealloc
define fileset name=old, path=/srv/home, size=$size, entries=$nold, dirwidth=10, prealloc
define fileset name=logs, path=/srv/log, size=16k, entries=1, prealloc
define fileset name=archives, path=/srv/backup, size=0, entries=1, prealloc

define process name=server, instances=1
{
  thread name=worker, memsize=10m, instances=$nthreads
  {
    flowop openfile name=open, filesetname=pages, fd=1
    flowop readwholefile name=read, iosize=1m, fd=1
    flowop closefile name=close, fd=1
    flowop appendfilerand name=log, filesetname=logs, iosize=8k, fd=2
  }
}
define process name=backup, instances=1
{
  thread name=copier, memsize=10m, instances=1
  {
    flowop openfile name=from, filesetname=old, fd=1
    flowop statfile name=about, filesetname=old, fd=1
    flowop readwholefile name=copy, iosize=64k, fd=1
    flowop closefile name=done, fd=1
    flowop appendfile name=archive, filesetname=archives, iosize=16k, fd=2
  }
}
run 60
