/* hot PROCESSES ROUNDS: each process opens, reads, stats and closes a file of its own so often;
 * with rounds 0 until there is a file "stop". Prints nothing. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **arguments)
{
	if (count != 3)
		return 2;
	int processes = atoi(arguments[1]), bad = 0, status;
	long rounds = atol(arguments[2]);
	for (int n = 0; n < processes; n++) {
		if (fork())
			continue;
		char name[32], byte = 0;
		struct stat st;
		snprintf(name, sizeof(name), "file%d", n);
		close(open(name, O_CREAT | O_WRONLY, 0600));
		for (long k = 0; rounds ? k < rounds : access("stop", F_OK) != 0; k++) {
			int fd = open(name, O_RDONLY);
			for (int i = 0; i < 7; i++)
				if (pread(fd, &byte, 1, 0) < 0)
					_exit(1);
			stat(name, &st);
			close(fd);
		}
		_exit(0);
	}
	while (wait(&status) > 0)
		bad |= status;
	return bad != 0;
}
