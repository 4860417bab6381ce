/* Names files in the current directory by way of descriptors; tests/calls/reached.rs says what must come. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static long must(long result, const char *what)
{
	if (result < 0) {
		perror(what);
		exit(1);
	}
	return result;
}
#define MUST(call) must((long)(call), #call)

static const char *name(const char *form, int fd)
{
	static char text[64];
	snprintf(text, sizeof text, form, fd);
	return text;
}

static void write_by(const char *path)
{
	int fd = MUST(open(path, O_WRONLY | O_APPEND));
	MUST(write(fd, "by name", 7));
	MUST(close(fd));
}

/* The directory is the root of the names; one is opened anew, as a tree. */
static void open_below(int dir)
{
	struct open_how how = {.flags = O_RDONLY, .resolve = RESOLVE_IN_ROOT};
	struct open_how beneath = {.flags = O_RDONLY, .resolve = RESOLVE_BENEATH};
	long tree;
	MUST(syscall(SYS_openat2, dir, "/inside", &how, sizeof how));
	MUST(syscall(SYS_openat2, dir, "../../inside", &how, sizeof how));
	if (syscall(SYS_openat2, dir, "/inside", &beneath, sizeof beneath) >= 0)
		exit(1);
	tree = MUST(syscall(SYS_open_tree, AT_FDCWD, "dir", 0));
	MUST(openat(tree, "inside", O_RDONLY));
}

int main(void)
{
	struct stat stat;
	int dir, fd = MUST(open("file", O_CREAT | O_RDWR, 0644));
	MUST(fchownat(fd, "", getuid(), -1, AT_EMPTY_PATH));
	if (linkat(fd, "", AT_FDCWD, "linked", AT_EMPTY_PATH) != 0)
		MUST(link("file", "linked"));
	MUST(dup2(fd, STDIN_FILENO));
	write_by("/dev/stdin");
	write_by(name("/dev/fd/%d", fd));
	write_by(name("/proc/self/fd/%d", fd));
	/* By its new name from here on. */
	MUST(rename("file", "renamed"));
	write_by(name("/proc/self/fd/%d", fd));
	MUST(lstat(name("/proc/self/fd/%d", fd), &stat));
	MUST(mkdir("dir", 0755));
	dir = MUST(open("dir", O_RDONLY | O_DIRECTORY));
	MUST(close(MUST(open(name("/proc/self/fd/%d/inside", dir), O_CREAT | O_RDWR, 0644))));
	MUST(close(fd));
	fd = MUST(open("dir", O_TMPFILE | O_RDWR, 0644));
	MUST(write(fd, "whole", 5));
	MUST(linkat(AT_FDCWD, name("/proc/self/fd/%d", fd), AT_FDCWD, "published", AT_SYMLINK_FOLLOW));
	MUST(linkat(AT_FDCWD, name("/proc/self/fd/%d", fd), dir, "again", AT_SYMLINK_FOLLOW));
	open_below(dir);
	return 0;
}
