# all; `both` is without the last three, `new` with the first four alone, `old` with the second four alone
set $nthreads=4
define fileset name=mail, path=/mail, size=16k, entries=1000, dirwidth=1000000, prealloc=40
define process name=p, instances=1
{
  thread name=t, memsize=10m, instances=$nthreads
  {
    flowop createfile name=c, filesetname=mail, fd=1
    flowop appendfilerand name=a, iosize=16k, fd=1
    flowop fsync name=s, fd=1
    flowop closefile name=x, fd=1
    flowop openfile name=o, filesetname=mail, fd=1
    flowop appendfilerand name=b, iosize=16k, fd=1
    flowop fsync name=u, fd=1
    flowop closefile name=y, fd=1
    flowop openfile name=o2, filesetname=mail, fd=1
    flowop readwholefile name=r, fd=1
    flowop closefile name=y2, fd=1
  }
}
run 10
