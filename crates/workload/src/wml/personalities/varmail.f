# A mail server that keeps each message in a file of its own, all in one directory (/var/mail): what
# PostMark does, with threads and with fsync. Each round of a thread deletes a message, delivers a
# new one and makes it stable, reads one and appends to it and makes that stable, and reads one.

set $dir=/tmp
set $nfiles=1000
set $meandirwidth=1000000
set $filesize=16k
set $filesizegamma=1500
set $nthreads=16
set $iosize=1m
set $meanappendsize=16k

define fileset name=mail, path=$dir, entries=$nfiles, dirwidth=$meandirwidth, size=$filesize, sizegamma=$filesizegamma, prealloc=80

define process name=mailserver, instances=1
{
  thread name=worker, memsize=10m, instances=$nthreads
  {
    flowop deletefile name=remove, filesetname=mail

    flowop createfile name=deliver-create, filesetname=mail, fd=1
    flowop appendfilerand name=deliver-append, iosize=$meanappendsize, fd=1
    flowop fsync name=deliver-sync, fd=1
    flowop closefile name=deliver-close, fd=1

    flowop openfile name=change-open, filesetname=mail, fd=1
    flowop readwholefile name=change-read, iosize=$iosize, fd=1
    flowop appendfilerand name=change-append, iosize=$meanappendsize, fd=1
    flowop fsync name=change-sync, fd=1
    flowop closefile name=change-close, fd=1

    flowop openfile name=look-open, filesetname=mail, fd=1
    flowop readwholefile name=look-read, iosize=$iosize, fd=1
    flowop closefile name=look-close, fd=1
  }
}
