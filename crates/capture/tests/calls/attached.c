/* A thread with a directory and descriptors of its own, met while it runs; goes on until it is killed. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MUST(call) do { if ((call) < 0) { perror(#call); exit(1); } } while (0)

static int common;

static void go_on(void)
{
	for (;;) {
		int fd = open("relative", O_WRONLY | O_CREAT, 0644);
		MUST(fd);
		MUST(close(fd));
		MUST(write(common, "x", 1));
		MUST(fcntl(common, F_DUPFD, 100));
		MUST(close(100));
		usleep(10000);
	}
}

static void *elsewhere(void *none)
{
	MUST(unshare(CLONE_FS | CLONE_FILES));
	MUST(mkdir("sub", 0755));
	MUST(chdir("sub"));
	MUST(close(common));
	MUST(open("theirs", O_WRONLY | O_CREAT, 0644)); /* the number of `common`, in here alone */
	go_on();
	return none;
}

int main(void)
{
	pthread_t thread;
	common = open("mine", O_WRONLY | O_CREAT, 0644);
	MUST(common);
	if (pthread_create(&thread, NULL, elsewhere, NULL))
		exit(1);
	go_on();
	return 0;
}
