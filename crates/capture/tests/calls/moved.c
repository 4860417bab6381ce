/* Names relative to directories that are renamed meanwhile, by itself. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void make(int directory, const char *name)
{
	int fd = openat(directory, name, O_CREAT | O_WRONLY, 0644);
	if (fd < 0 || write(fd, "x", 1) != 1 || close(fd))
		exit(1);
}

int main(void)
{
	if (mkdir("a", 0755) || mkdir("a/sub", 0755))
		return 2;
	int directory = open("a", O_RDONLY | O_DIRECTORY);
	int sub = open("a/sub", O_RDONLY | O_DIRECTORY);
	if (directory < 0 || sub < 0 || chdir("a/sub") || rename("../../a", "../../b"))
		return 3;
	make(directory, "one");
	make(AT_FDCWD, "two");
	make(sub, "three");
	/* Another one by the old name. */
	if (mkdir("../../a", 0755))
		return 4;
	make(AT_FDCWD, "../../a/four");
	if (renameat2(AT_FDCWD, "../../a", AT_FDCWD, "../../b", RENAME_EXCHANGE))
		return 5;
	make(directory, "five");
	make(AT_FDCWD, "six");
	if (fchdir(directory) || rename("../a", "../outside"))
		return 6;
	make(AT_FDCWD, "seven");
	return 0;
}
