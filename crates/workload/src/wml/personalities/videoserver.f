# A video server: threads stream the active videos at a rate that they share, while one thread
# replaces a passive video every few seconds. The rate is in MiB a second for all threads together.
# filebench's videos have 10g.

set $dir=/tmp
set $eventrate=96
set $filesize=16m
set $nthreads=48
set $numactivevids=32
set $numpassivevids=194
set $readiosize=256k
set $writeiosize=1m
set $repintval=10

eventgen rate=$eventrate

define fileset name=active, path=$dir, entries=$numactivevids, dirwidth=4, size=$filesize, prealloc, paralloc
define fileset name=passive, path=$dir, entries=$numpassivevids, dirwidth=20, size=$filesize, prealloc=50, paralloc

define process name=vidwriter, instances=1
{
  thread name=writer, memsize=10m, instances=1
  {
    flowop deletefile name=old-remove, filesetname=passive
    flowop createfile name=new-create, filesetname=passive, fd=1
    flowop writewholefile name=new-write, srcfd=1, fd=1, iosize=$writeiosize
    flowop closefile name=new-close, fd=1
    flowop delay name=interval, value=$repintval
  }
}

define process name=vidreaders, instances=1
{
  thread name=reader, memsize=10m, instances=$nthreads
  {
    flowop read name=stream, filesetname=active, iosize=$readiosize
    flowop bwlimit name=rate, target=stream
  }
}
