# The file server of Farhat 2017, appendix H, in its words. In print two flowops are 'deletetfile'.
set $dir=/tmp
set $nfiles=10000
set $meandirwidth=20
set $meanfilesize=128k
set $nthreads=5
set $meaniosize=1m
set $meanappendsize=16k
set $runtime=5

define fileset
name=bigfileset,path=$dir,size=$meanfilesize,entries=$nfiles,dirwidth=$meandirwidth,prealloc=80

define process name=filereader,instances=1
{
  thread name=filereaderthread,memsize=10m,instances=$nthreads
  {
    flowop createfile name=create1,filesetname=bigfileset,fd=1
    flowop writewholefile name=write1,srcfd=1,fd=1,iosize=$meaniosize
    flowop closefile name=close1,fd=1
    flowop openfile name=open1,filesetname=bigfileset,fd=1
    flowop appendfilerand name=append1,iosize=$meanappendsize,fd=1
    flowop closefile name=close2,fd=1
    flowop openfile name=open2,filesetname=bigfileset,fd=1
    flowop readwholefile name=read1,fd=1,iosize=$meaniosize
    flowop closefile name=close3,fd=1
    flowop deletefile name=delete1,filesetname=bigfileset
    flowop statfile name=stat1,filesetname=bigfileset
  }
}

set $nfiles=1000

echo "  a file server"
echo "    \kdir=$dir"
echo "    \knfiles=$nfiles"

run 300
