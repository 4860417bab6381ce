# A file server with users' files in a tree: each thread stores a file, appends to one, reads one,
# deletes one and asks for the attributes of one.

set $dir=/tmp
set $nfiles=10000
set $meandirwidth=20
set $filesize=128k
set $filesizegamma=1500
set $nthreads=50
set $iosize=1m
set $meanappendsize=16k

define fileset name=home, path=$dir, entries=$nfiles, dirwidth=$meandirwidth, size=$filesize, sizegamma=$filesizegamma, prealloc=80

define process name=fileserver, instances=1
{
  thread name=worker, memsize=10m, instances=$nthreads
  {
    flowop createfile name=store-create, filesetname=home, fd=1
    flowop writewholefile name=store-write, srcfd=1, fd=1, iosize=$iosize
    flowop closefile name=store-close, fd=1

    flowop openfile name=append-open, filesetname=home, fd=1
    flowop appendfilerand name=append-write, iosize=$meanappendsize, fd=1
    flowop closefile name=append-close, fd=1

    flowop openfile name=read-open, filesetname=home, fd=1
    flowop readwholefile name=read-read, iosize=$iosize, fd=1
    flowop closefile name=read-close, fd=1

    flowop deletefile name=remove, filesetname=home
    flowop statfile name=look, filesetname=home
  }
}
