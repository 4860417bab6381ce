# A caching web proxy with one flat directory: an object is thrown out, another one fetched and
# stored, and five are served from the cache.

set $dir=/tmp
set $nfiles=10000
set $meandirwidth=1000000
set $filesize=16k
set $filesizegamma=1500
set $nthreads=100
set $iosize=1m
set $meanappendsize=16k

define fileset name=objects, path=$dir, entries=$nfiles, dirwidth=$meandirwidth, size=$filesize, sizegamma=$filesizegamma, prealloc=80

define flowop name=serve
{
  flowop openfile name=serve-open, filesetname=objects, fd=1
  flowop readwholefile name=serve-read, iosize=$iosize, fd=1
  flowop closefile name=serve-close, fd=1
}

define process name=proxy, instances=1
{
  thread name=worker, memsize=10m, instances=$nthreads
  {
    flowop deletefile name=evict, filesetname=objects
    flowop createfile name=store-create, filesetname=objects, fd=1
    flowop appendfilerand name=store-append, iosize=$meanappendsize, fd=1
    flowop closefile name=store-close, fd=1
    flowop serve name=hits, iters=5
    flowop opslimit name=rate
  }
}
