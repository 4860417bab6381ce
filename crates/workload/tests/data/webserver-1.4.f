# The web server of Farhat 2017, appendix G, in its words, shortened: seven of the ten reads are left
# out. In print the flowops name the fileset 'bigfilesset', which is not defined.
set $dir=/tmp
set $nfiles=1000
set $meandirwidth=20
set $filesize=cvar(type=cvar-gamma,parameters=mean:16384;gamma:1.5)
set $nthreads=5
set $iosize=1m
set $meanappendsize=16k

define fileset
name=bigfileset,path=$dir,size=$filesize,entries=$nfiles,dirwidth=$meandirwidth,prealloc=100,readonly
define fileset

name=logfiles,path=$dir,size=$filesize,entries=1,dirwidth=$meandirwidth,prealloc
define process name=filereader,instances=1
{
  thread name=filereaderthread,memsize=10m,instances=$nthreads
  {
    flowop openfile name=open1,filesetname=bigfileset,fd=1
    flowop readwholefile name=read1,fd=1,iosize=$iosize
    flowop closefile name=close1,fd=1
    flowop openfile name=open2,filesetname=bigfileset,fd=1
    flowop readwholefile name=read2,fd=1,iosize=$iosize
    flowop closefile name=close2,fd=1
    flowop openfile name=open3,filesetname=bigfileset,fd=1
    flowop readwholefile name=read3,fd=1,iosize=$iosize
    flowop closefile name=close3,fd=1
    flowop appendfilerand
name=appendlog,filesetname=logfiles,iosize=$meanappendsize,fd=2
  }
}
echo "a web server"
run 60
