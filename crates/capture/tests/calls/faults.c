/* Page faults that no instruction of the program makes: within calls that copy, and by calls that populate. And calls on
 * files that few programs make. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LENGTH (256 * 4096)
#define POPULATE_WRITE 23

static char *map(const char *name, int more)
{
	int fd = open(name, O_RDWR);
	char *at = mmap(0, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED | more, fd, 0);
	if (fd < 0 || at == MAP_FAILED)
		exit(1);
	close(fd);
	return at;
}

int main(void)
{
	char *copied = map("copied", 0);
	int out = open("out", O_CREAT | O_WRONLY, 0644);
	if (write(out, copied, LENGTH) != LENGTH)
		return 2;
	if (madvise(map("written", 0), LENGTH, POPULATE_WRITE))
		return 3;
	if (mlock(map("locked", 0), LENGTH))
		return 4;
	map("populated", MAP_POPULATE);

	struct fiemap asked = { .fm_length = ~0ULL, .fm_flags = FIEMAP_FLAG_SYNC };
	if (ioctl(out, FS_IOC_FIEMAP, &asked))
		return 5;
	asked.fm_flags = 0;
	if (ioctl(out, FS_IOC_FIEMAP, &asked))
		return 6;
	struct { uint64_t value; uint32_t size, flags; } value = { (uintptr_t)"value", 5, 0 };
	syscall(463, AT_FDCWD, "out", 0, "user.name", &value, sizeof(value));
	syscall(463, out, "", AT_EMPTY_PATH, "user.name", &value, sizeof(value));

	struct file_handle *handle = malloc(sizeof(*handle) + MAX_HANDLE_SZ);
	int mount;
	handle->handle_bytes = MAX_HANDLE_SZ;
	if (name_to_handle_at(AT_FDCWD, "out", handle, &mount, 0))
		return 7;
	int there = open(".", O_RDONLY | O_DIRECTORY);
	int again = open_by_handle_at(there, handle, O_WRONLY);
	if (again < 0 || write(again, "again", 5) != 5)
		return 8;
	return 0;
}
