# The web proxy of Farhat 2017, appendix F, in its words of filebench 1.4, shortened: two of the
# five reads are left out.
set $dir=/tmp
set $nfiles=10000
set $meandirwidth=1000000
set $meanfilesize=16k
set $nthreads=5
set $meaniosize=16k
set $iosize=1m

define fileset
name=bigfileset,path=$dir,size=$meanfilesize,entries=$nfiles,dirwidth=$meandirwidth,prealloc=80

define process name=proxycache,instances=1
{
  thread name=proxycache,memsize=10m,instances=$nthreads
  {
    flowop deletefile name=delete1,filesetname=bigfileset
    flowop createfile name=create1,filesetname=bigfileset,fd=1
    flowop appendfilerand name=append1,iosize=$meaniosize,fd=1
    flowop closefile name=close1,fd=1
    flowop openfile name=open2,filesetname=bigfileset,fd=1
    flowop readwholefile name=read2,fd=1,iosize=$iosize
    flowop closefile name=close2,fd=1
    flowop openfile name=open3,filesetname=bigfileset,fd=1
    flowop readwholefile name=read3,fd=1,iosize=$iosize
    flowop closefile name=close3,fd=1
    flowop openfile name=open4,filesetname=bigfileset,fd=1
    flowop readwholefile name=read4,fd=1,iosize=$iosize
    flowop closefile name=close4,fd=1
    flowop opslimit name=limit
  }
}

echo "a web proxy"
usage "Usage: set \${dir}<dir>"
usage "    set \${nfiles}<value> defaults to $nfiles"
usage "    run runtime (e.g. run 60)"
