# Made by fsage from a model of 172426 operations. Run it by: setarch -R filebench -f FILE
# A thread goes through its flowops 220 times for all of them.

set $dir=/tmp
define fileset name=files1, path=$dir, entries=1008, dirwidth=1008, size=6132, prealloc=6
define fileset name=files2, path=$dir, entries=364, dirwidth=364, size=1542, prealloc=17
define fileset name=files3, path=$dir, entries=842, dirwidth=842, size=6132, prealloc=7
define fileset name=files4, path=$dir, entries=474, dirwidth=474, size=3078, prealloc=60
define fileset name=files5, path=$dir, entries=578, dirwidth=578, size=1542, prealloc=11
define fileset name=files6, path=$dir, entries=1076, dirwidth=1076, size=3584, prealloc=6
define fileset name=files7, path=$dir, entries=2565, dirwidth=2565, size=9093, prealloc=2
define fileset name=files8, path=$dir, entries=579, dirwidth=579, size=3078, prealloc=11
define fileset name=files9, path=$dir, entries=2079, dirwidth=2079, size=7680, prealloc=3
define fileset name=files10, path=$dir, entries=1042, dirwidth=1042, size=6656, prealloc=6
define fileset name=files13, path=$dir, entries=961, dirwidth=961, size=9093, prealloc=7
define fileset name=files14, path=$dir, entries=1376, dirwidth=1376, size=9728, prealloc=5
define fileset name=files15, path=$dir, entries=384, dirwidth=384, size=768, prealloc=16
define fileset name=files16, path=$dir, entries=529, dirwidth=529, size=9728, prealloc=12
define fileset name=files17, path=$dir, entries=243, dirwidth=243, size=768, prealloc=26

define flowop name=g1v1
{
  flowop createfile name=g1v1s1, filesetname=files1, fd=1
  flowop appendfile name=g1v1s2, fd=1, iosize=4096, iters=1
  flowop appendfile name=g1v1s3, fd=1, iosize=2037, iters=1
  flowop closefile name=g1v1s4, fd=1
}

define flowop name=g1v2
{
  flowop deletefile name=g1v2s1, filesetname=files1
}

define flowop name=g1v3
{
  flowop openfile name=g1v3s1, filesetname=files1, fd=1
  flowop readwholefile name=g1v3s2, fd=1, iosize=4096
  flowop closefile name=g1v3s3, fd=1
}

define flowop name=g1v4
{
  flowop createfile name=g1v4s1, filesetname=files2, fd=1
  flowop appendfile name=g1v4s2, fd=1, iosize=1542, iters=1
  flowop closefile name=g1v4s3, fd=1
}

define flowop name=g1v5
{
  flowop deletefile name=g1v5s1, filesetname=files2
}

define flowop name=g1v6
{
  flowop openfile name=g1v6s1, filesetname=files2, fd=1
  flowop readwholefile name=g1v6s2, fd=1, iosize=4096
  flowop closefile name=g1v6s3, fd=1
}

define flowop name=g1v7
{
  flowop createfile name=g1v7s1, filesetname=files3, fd=1
  flowop appendfile name=g1v7s2, fd=1, iosize=1542, iters=1
  flowop closefile name=g1v7s3, fd=1
}

define flowop name=g1v8
{
  flowop createfile name=g1v8s1, filesetname=files3, fd=1
  flowop appendfile name=g1v8s2, fd=1, iosize=3078, iters=1
  flowop closefile name=g1v8s3, fd=1
}

define flowop name=g1v9
{
  flowop createfile name=g1v9s1, filesetname=files3, fd=1
  flowop appendfile name=g1v9s2, fd=1, iosize=4096, iters=1
  flowop appendfile name=g1v9s3, fd=1, iosize=2037, iters=1
  flowop closefile name=g1v9s4, fd=1
}

define flowop name=g1v10
{
  flowop deletefile name=g1v10s1, filesetname=files3
}

define flowop name=g1v11
{
  flowop openfile name=g1v11s1, filesetname=files3, fd=1
  flowop appendfile name=g1v11s2, fd=1, iosize=1104, iters=1
  flowop closefile name=g1v11s3, fd=1
}

define flowop name=g1v12
{
  flowop openfile name=g1v12s1, filesetname=files3, fd=1
  flowop appendfile name=g1v12s2, fd=1, iosize=4096, iters=1
  flowop appendfile name=g1v12s3, fd=1, iosize=1467, iters=1
  flowop closefile name=g1v12s4, fd=1
}

define flowop name=g1v13
{
  flowop deletefile name=g1v13s1, filesetname=files4
}

define flowop name=g1v14
{
  flowop openfile name=g1v14s1, filesetname=files4, fd=1
  flowop appendfile name=g1v14s2, fd=1, iosize=1104, iters=1
  flowop closefile name=g1v14s3, fd=1
}

define flowop name=g1v15
{
  flowop openfile name=g1v15s1, filesetname=files4, fd=1
  flowop readwholefile name=g1v15s2, fd=1, iosize=4096
  flowop closefile name=g1v15s3, fd=1
}

define flowop name=g1v16
{
  flowop createfile name=g1v16s1, filesetname=files5, fd=1
  flowop appendfile name=g1v16s2, fd=1, iosize=1542, iters=1
  flowop closefile name=g1v16s3, fd=1
}

define flowop name=g1v17
{
  flowop deletefile name=g1v17s1, filesetname=files5
}

define flowop name=g1v18
{
  flowop createfile name=g1v18s1, filesetname=files6, fd=1
  flowop appendfile name=g1v18s2, fd=1, iosize=3078, iters=1
  flowop closefile name=g1v18s3, fd=1
}

define flowop name=g1v19
{
  flowop deletefile name=g1v19s1, filesetname=files6
}

define flowop name=g1v20
{
  flowop createfile name=g1v20s1, filesetname=files7, fd=1
  flowop appendfile name=g1v20s2, fd=1, iosize=1542, iters=1
  flowop closefile name=g1v20s3, fd=1
}

define flowop name=g1v21
{
  flowop createfile name=g1v21s1, filesetname=files7, fd=1
  flowop appendfile name=g1v21s2, fd=1, iosize=3078, iters=1
  flowop closefile name=g1v21s3, fd=1
}

define flowop name=g1v22
{
  flowop createfile name=g1v22s1, filesetname=files7, fd=1
  flowop appendfile name=g1v22s2, fd=1, iosize=4096, iters=1
  flowop appendfile name=g1v22s3, fd=1, iosize=2037, iters=1
  flowop closefile name=g1v22s4, fd=1
}

define flowop name=g1v23
{
  flowop createfile name=g1v23s1, filesetname=files7, fd=1
  flowop appendfile name=g1v23s2, fd=1, iosize=4096, iters=2
  flowop appendfile name=g1v23s3, fd=1, iosize=902, iters=1
  flowop closefile name=g1v23s4, fd=1
}

define flowop name=g1v24
{
  flowop deletefile name=g1v24s1, filesetname=files7
}

define flowop name=g1v25
{
  flowop openfile name=g1v25s1, filesetname=files7, fd=1
  flowop appendfile name=g1v25s2, fd=1, iosize=1104, iters=1
  flowop closefile name=g1v25s3, fd=1
}

define flowop name=g1v26
{
  flowop openfile name=g1v26s1, filesetname=files7, fd=1
  flowop appendfile name=g1v26s2, fd=1, iosize=4096, iters=1
  flowop appendfile name=g1v26s3, fd=1, iosize=1467, iters=1
  flowop closefile name=g1v26s4, fd=1
}

define flowop name=g1v27
{
  flowop openfile name=g1v27s1, filesetname=files7, fd=1
  flowop readwholefile name=g1v27s2, fd=1, iosize=4096
  flowop closefile name=g1v27s3, fd=1
}

define flowop name=g1v28
{
  flowop createfile name=g1v28s1, filesetname=files8, fd=1
  flowop appendfile name=g1v28s2, fd=1, iosize=3078, iters=1
  flowop closefile name=g1v28s3, fd=1
}

define flowop name=g1v29
{
  flowop deletefile name=g1v29s1, filesetname=files8
}

define flowop name=g1v30
{
  flowop openfile name=g1v30s1, filesetname=files8, fd=1
  flowop readwholefile name=g1v30s2, fd=1, iosize=4096
  flowop closefile name=g1v30s3, fd=1
}

define flowop name=g1v31
{
  flowop createfile name=g1v31s1, filesetname=files9, fd=1
  flowop appendfile name=g1v31s2, fd=1, iosize=4096, iters=1
  flowop appendfile name=g1v31s3, fd=1, iosize=2037, iters=1
  flowop closefile name=g1v31s4, fd=1
}

define flowop name=g1v32
{
  flowop deletefile name=g1v32s1, filesetname=files9
}

define flowop name=g1v33
{
  flowop createfile name=g1v33s1, filesetname=files10, fd=1
  flowop appendfile name=g1v33s2, fd=1, iosize=1542, iters=1
  flowop closefile name=g1v33s3, fd=1
}

define flowop name=g1v34
{
  flowop createfile name=g1v34s1, filesetname=files10, fd=1
  flowop appendfile name=g1v34s2, fd=1, iosize=3078, iters=1
  flowop closefile name=g1v34s3, fd=1
}

define flowop name=g1v35
{
  flowop createfile name=g1v35s1, filesetname=files10, fd=1
  flowop appendfile name=g1v35s2, fd=1, iosize=4096, iters=1
  flowop appendfile name=g1v35s3, fd=1, iosize=2037, iters=1
  flowop closefile name=g1v35s4, fd=1
}

define flowop name=g1v36
{
  flowop deletefile name=g1v36s1, filesetname=files10
}

define flowop name=g1v37
{
  flowop openfile name=g1v37s1, filesetname=files10, fd=1
  flowop appendfile name=g1v37s2, fd=1, iosize=1104, iters=1
  flowop closefile name=g1v37s3, fd=1
}

define flowop name=g1v38
{
  flowop openfile name=g1v38s1, filesetname=files10, fd=1
  flowop appendfile name=g1v38s2, fd=1, iosize=4096, iters=1
  flowop appendfile name=g1v38s3, fd=1, iosize=1467, iters=1
  flowop closefile name=g1v38s4, fd=1
}

define flowop name=g1v39
{
  flowop openfile name=g1v39s1, filesetname=files10, fd=1
  flowop readwholefile name=g1v39s2, fd=1, iosize=4096
  flowop closefile name=g1v39s3, fd=1
}

define flowop name=g1v40
{
  flowop createfile name=g1v40s1, filesetname=files13, fd=1
  flowop appendfile name=g1v40s2, fd=1, iosize=4096, iters=2
  flowop appendfile name=g1v40s3, fd=1, iosize=902, iters=1
  flowop closefile name=g1v40s4, fd=1
}

define flowop name=g1v41
{
  flowop deletefile name=g1v41s1, filesetname=files13
}

define flowop name=g1v42
{
  flowop createfile name=g1v42s1, filesetname=files14, fd=1
  flowop appendfile name=g1v42s2, fd=1, iosize=3078, iters=1
  flowop closefile name=g1v42s3, fd=1
}

define flowop name=g1v43
{
  flowop createfile name=g1v43s1, filesetname=files14, fd=1
  flowop appendfile name=g1v43s2, fd=1, iosize=4096, iters=1
  flowop appendfile name=g1v43s3, fd=1, iosize=2037, iters=1
  flowop closefile name=g1v43s4, fd=1
}

define flowop name=g1v44
{
  flowop createfile name=g1v44s1, filesetname=files14, fd=1
  flowop appendfile name=g1v44s2, fd=1, iosize=4096, iters=2
  flowop appendfile name=g1v44s3, fd=1, iosize=902, iters=1
  flowop closefile name=g1v44s4, fd=1
}

define flowop name=g1v45
{
  flowop deletefile name=g1v45s1, filesetname=files14
}

define flowop name=g1v46
{
  flowop openfile name=g1v46s1, filesetname=files14, fd=1
  flowop appendfile name=g1v46s2, fd=1, iosize=1104, iters=1
  flowop closefile name=g1v46s3, fd=1
}

define flowop name=g1v47
{
  flowop openfile name=g1v47s1, filesetname=files14, fd=1
  flowop appendfile name=g1v47s2, fd=1, iosize=4096, iters=1
  flowop appendfile name=g1v47s3, fd=1, iosize=1467, iters=1
  flowop closefile name=g1v47s4, fd=1
}

define flowop name=g1v48
{
  flowop createfile name=g1v48s1, filesetname=files15, fd=1
  flowop appendfile name=g1v48s2, fd=1, iosize=769, iters=1
  flowop closefile name=g1v48s3, fd=1
}

define flowop name=g1v49
{
  flowop deletefile name=g1v49s1, filesetname=files15
}

define flowop name=g1v50
{
  flowop createfile name=g1v50s1, filesetname=files16, fd=1
  flowop appendfile name=g1v50s2, fd=1, iosize=4096, iters=2
  flowop appendfile name=g1v50s3, fd=1, iosize=902, iters=1
  flowop closefile name=g1v50s4, fd=1
}

define flowop name=g1v51
{
  flowop deletefile name=g1v51s1, filesetname=files16
}

define flowop name=g1v52
{
  flowop openfile name=g1v52s1, filesetname=files16, fd=1
  flowop readwholefile name=g1v52s2, fd=1, iosize=4096
  flowop closefile name=g1v52s3, fd=1
}

define flowop name=g1v53
{
  flowop createfile name=g1v53s1, filesetname=files17, fd=1
  flowop appendfile name=g1v53s2, fd=1, iosize=769, iters=1
  flowop closefile name=g1v53s3, fd=1
}

define flowop name=g1v54
{
  flowop deletefile name=g1v54s1, filesetname=files17
}

define flowop name=g1v55
{
  flowop openfile name=g1v55s1, filesetname=files17, fd=1
  flowop readwholefile name=g1v55s2, fd=1, iosize=4096
  flowop closefile name=g1v55s3, fd=1
}

define process name=group1, instances=1
{
  thread name=thread1, memsize=10m, instances=1
  {
    flowop g1v1 name=g1u1, iters=4
    flowop g1v2 name=g1u2, iters=4
    flowop g1v3 name=g1u3, iters=6
    flowop g1v4 name=g1u4, iters=1
    flowop g1v5 name=g1u5, iters=1
    flowop g1v6 name=g1u6, iters=1
    flowop g1v7 name=g1u7, iters=1
    flowop g1v8 name=g1u8, iters=1
    flowop g1v9 name=g1u9, iters=1
    flowop g1v10 name=g1u10, iters=3
    flowop g1v11 name=g1u11, iters=3
    flowop g1v12 name=g1u12, iters=1
    flowop g1v13 name=g1u13, iters=1
    flowop g1v14 name=g1u14, iters=1
    flowop g1v15 name=g1u15, iters=1
    flowop g1v16 name=g1u16, iters=2
    flowop g1v17 name=g1u17, iters=2
    flowop g1v18 name=g1u18, iters=4
    flowop g1v19 name=g1u19, iters=4
    flowop g1v20 name=g1u20, iters=1
    flowop g1v21 name=g1u21, iters=2
    flowop g1v22 name=g1u22, iters=5
    flowop g1v23 name=g1u23, iters=3
    flowop g1v24 name=g1u24, iters=11
    flowop g1v25 name=g1u25, iters=23
    flowop g1v26 name=g1u26, iters=3
    flowop g1v27 name=g1u27, iters=23
    flowop g1v28 name=g1u28, iters=2
    flowop g1v29 name=g1u29, iters=2
    flowop g1v30 name=g1u30, iters=3
    flowop g1v31 name=g1u31, iters=9
    flowop g1v32 name=g1u32, iters=9
    flowop g1v33 name=g1u33, iters=1
    flowop g1v34 name=g1u34, iters=1
    flowop g1v35 name=g1u35, iters=2
    flowop g1v36 name=g1u36, iters=4
    flowop g1v37 name=g1u37, iters=5
    flowop g1v38 name=g1u38, iters=1
    flowop g1v39 name=g1u39, iters=7
    flowop g1v40 name=g1u40, iters=4
    flowop g1v41 name=g1u41, iters=4
    flowop g1v42 name=g1u42, iters=1
    flowop g1v43 name=g1u43, iters=3
    flowop g1v44 name=g1u44, iters=2
    flowop g1v45 name=g1u45, iters=6
    flowop g1v46 name=g1u46, iters=8
    flowop g1v47 name=g1u47, iters=1
    flowop g1v48 name=g1u48, iters=1
    flowop g1v49 name=g1u49, iters=1
    flowop g1v50 name=g1u50, iters=2
    flowop g1v51 name=g1u51, iters=2
    flowop g1v52 name=g1u52, iters=3
    flowop g1v53 name=g1u53, iters=1
    flowop g1v54 name=g1u54, iters=1
    flowop g1v55 name=g1u55, iters=1
  }
}

run 1
