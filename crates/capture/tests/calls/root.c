/* Works below a root of its own, leaves it, and works outside again. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(call) do { if ((call) < 0) { perror(#call); exit(1); } } while (0)

static void touch(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT, 0644);
	MUST(fd);
	MUST(write(fd, "x", 1));
	MUST(fsync(fd));
	MUST(close(fd));
}

int main(void)
{
	int status, out = open("/", O_RDONLY | O_DIRECTORY), here = open(".", O_RDONLY | O_DIRECTORY);
	MUST(mkdir("new", 0755));
	MUST(chroot("new"));
	MUST(chdir("/"));
	MUST(mkdir("/in", 0755));
	touch("/in/file");
	MUST(rename("/in/file", "/../in/moved"));
	touch("../in/../../up"); /* there is nothing above the root */
	if (fork() == 0) { /* who inherits it, and makes it smaller still */
		touch("relative");
		MUST(chroot("in"));
		touch("/inner");
		_exit(chroot("/none") < 0 && errno == ENOENT ? 0 : 2);
	}
	MUST(wait(&status));
	MUST(fchdir(out));
	MUST(chroot("."));
	MUST(fchdir(here));
	touch("outside");
	touch("/proc/self/cwd/in-cwd");
	touch("/proc/thread-self/cwd/in-own");
	return WEXITSTATUS(status);
}
