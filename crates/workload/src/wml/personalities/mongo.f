# File system benchmark "mongo", as filebench has it: append to one file, read one, delete one of
# another set, until that is empty.

set $dir=/tmp
set $nfiles=1000
set $meandirwidth=20
set $filesize=16k
set $nthreads=1
set $meanappendsize=16k
set $iosize=1m

set mode quit firstdone

define fileset name=kept, path=$dir, entries=$nfiles, dirwidth=$meandirwidth, size=$filesize, prealloc, paralloc
define fileset name=removed, path=$dir, entries=$nfiles, dirwidth=$meandirwidth, size=$filesize, prealloc, paralloc

define process name=mongo, instances=1
{
  thread name=worker, memsize=10m, instances=$nthreads
  {
    flowop openfile name=append-open, filesetname=kept, fd=1
    flowop appendfilerand name=append-write, iosize=$meanappendsize, fd=1
    flowop closefile name=append-close, fd=1
    flowop openfile name=read-open, filesetname=kept, fd=1
    flowop readwholefile name=read-read, iosize=$iosize, fd=1
    flowop closefile name=read-close, fd=1
    flowop deletefile name=remove, filesetname=removed
  }
}
