#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <fcntl.h>
#include <unistd.h>
#include <time.h>
#include <string.h>
#include <sys/stat.h>
static double now(){struct timespec t;clock_gettime(CLOCK_MONOTONIC,&t);return t.tv_sec*1e6+t.tv_nsec/1e3;}
int main(int c,char**v){ int n=atoi(v[1]),kb=atoi(v[2]),step=atoi(v[3]); char b[1<<17]; memset(b,7,sizeof b); char p[64]; 
 double z=0,T=now(); int spin=atoi(v[4]); double o=0,w=0,m=0; int slow=0;
 for(int i=0;i<n;i++){ if(i%100==0){sprintf(p,"d%d",i/100);mkdir(p,0755);} sprintf(p,"d%d/f%d",i/100,i);
  double a=now(); int f=open(p,O_CREAT|O_RDWR,0644); double e=now(); o+=e-a; write(f,b,kb*1024); double g=now(); w+=g-e; close(f); double q=now(); if(spin>0) while(now()-q<spin); else for(int k=0;k<-spin;k++){struct stat st; stat(p,&st);} double r=now(); z+=r-q; if(g-a>400)slow++, m+=g-a;
  if((i+1)%step==0){printf("%d: total %.1f between %.1f open %.1f write %.1f slow %d %.1f ms\n",i+1,(now()-T)/step,z/step,o/step,w/step,slow,m/1e3);o=w=m=z=0;T=now();slow=0;} } }
