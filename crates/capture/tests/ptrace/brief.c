/* Makes 1500 children that end at once, 300 at a time. */
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
	for (int i = 0; i < 1500; i++) {
		pid_t child = fork();
		if (child == 0)
			_exit(0);
		if (child < 0)
			return 1;
		if (i % 300 == 299)
			while (wait(0) > 0)
				;
	}
	return 0;
}
