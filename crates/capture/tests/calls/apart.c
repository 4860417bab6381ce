/* A thread with a directory and then descriptors of its own, and one that it makes; the first thread goes on as before. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MUST(call) do { if ((call) < 0) { perror(#call); exit(1); } } while (0)

static pthread_barrier_t turn;
static int common;

static void touch(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT, 0644);
	MUST(fd);
	MUST(write(fd, "x", 1));
	MUST(close(fd));
}

static void *inner(void *none)
{
	touch("inner"); /* shares what its maker has */
	return none;
}

static void *elsewhere(void *none)
{
	pthread_t thread;
	MUST(unshare(CLONE_FS));
	MUST(mkdir("sub", 0755));
	MUST(chdir("sub"));
	touch("theirs");
	MUST(unshare(CLONE_FILES));
	MUST(close(common));
	MUST(open("again", O_WRONLY | O_CREAT, 0644)); /* the number of `common`, in here alone */
	MUST(write(common, "1234567", 7));
	if (pthread_create(&thread, NULL, inner, NULL) || pthread_join(thread, NULL))
		exit(1);
	pthread_barrier_wait(&turn);
	pthread_barrier_wait(&turn);
	MUST(write(common, "89", 2));
	MUST(syscall(SYS_close_range, common, common, CLOSE_RANGE_UNSHARE));
	return none;
}

int main(void)
{
	pthread_t thread;
	pthread_barrier_init(&turn, NULL, 2);
	common = open("mine", O_WRONLY | O_CREAT, 0644);
	MUST(common);
	if (pthread_create(&thread, NULL, elsewhere, NULL))
		exit(1);
	pthread_barrier_wait(&turn);
	touch("stays");
	MUST(write(common, "123", 3));
	pthread_barrier_wait(&turn);
	pthread_join(thread, NULL);
	MUST(write(common, "45", 2));
	MUST(close(common));
	return 0;
}
