# A transaction database in Oracle's manner: shadow processes read small blocks at random and post to
# the log writer and to the database writers, which write when enough posts have come.

set $dir=/tmp
set $eventrate=0
set $iosize=2k
set $nshadows=200
set $ndbwriters=10
set $usermode=200000
set $filesize=10m
set $logfilesize=10m
set $nfiles=10
set $nlogfiles=1
set $workingset=0
set $logposts=3200
set $dbposts=1000
set $directio=0

eventgen rate=$eventrate

define fileset name=data, path=$dir, entries=$nfiles, dirwidth=1024, size=$filesize, prealloc=100, reuse
define fileset name=log, path=$dir, entries=$nlogfiles, dirwidth=1024, size=$logfilesize, prealloc=100, reuse

define process name=logwriter, instances=1
{
  thread name=writer, memsize=1m, useism
  {
    flowop aiowrite name=log-write, filesetname=log, iosize=256k, random, dsync, directio=$directio
    flowop aiowait name=log-wait
    flowop semblock name=log-block, value=$logposts, highwater=1000
  }
}

define process name=dbwriter, instances=$ndbwriters
{
  thread name=writer, memsize=1m, useism
  {
    flowop aiowrite name=db-write, filesetname=data, iosize=$iosize, workingset=$workingset, random, iters=100, opennext, dsync, directio=$directio
    flowop hog name=db-think, value=10000
    flowop semblock name=db-block, value=$dbposts, highwater=2000
    flowop aiowait name=db-wait
  }
}

define process name=shadow, instances=$nshadows
{
  thread name=reader, memsize=1m, useism
  {
    flowop read name=shadow-read, filesetname=data, iosize=$iosize, workingset=$workingset, random, opennext, directio=$directio
    flowop hog name=shadow-think, value=$usermode
    flowop sempost name=post-log, value=1, target=log-block, blocking
    flowop sempost name=post-db, value=1, target=db-block, blocking
    flowop eventlimit name=rate
  }
}
