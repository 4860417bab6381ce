# A web server: ten pages are read from a tree of directories, then a record is appended to one log
# that all threads share.

set $dir=/tmp
set $nfiles=1000
set $meandirwidth=20
set $filesize=16k
set $filesizegamma=1500
set $nthreads=100
set $iosize=1m
set $meanappendsize=16k

define fileset name=pages, path=$dir, entries=$nfiles, dirwidth=$meandirwidth, size=$filesize, sizegamma=$filesizegamma, prealloc=100, readonly
define fileset name=logs, path=$dir, entries=1, dirwidth=$meandirwidth, size=$filesize, sizegamma=$filesizegamma, prealloc

define flowop name=fetch
{
  flowop openfile name=page-open, filesetname=pages, fd=1
  flowop readwholefile name=page-read, iosize=$iosize, fd=1
  flowop closefile name=page-close, fd=1
}

define process name=webserver, instances=1
{
  thread name=worker, memsize=10m, instances=$nthreads
  {
    flowop fetch name=pages-fetch, iters=10
    flowop appendfilerand name=log-append, filesetname=logs, iosize=$meanappendsize, fd=2
  }
}
