/* Requests of io_uring that do what system calls do, in the current directory; with an argument those that no trace can
   tell. tests/calls/uring.rs says what must come. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void check(long result, const char *what)
{
	if (result < 0) {
		perror(what);
		exit(1);
	}
}
#define MUST(call) check((long)(call), #call)

#include "ring.h"

/* Not in every header. */
#define FTRUNCATE 55
#define ADDRESS(of) ((unsigned long)(of))

static void ask(struct io_uring_sqe sqe)
{
	int result = request(sqe);
	if (result < 0)
		printf("request %d: %s\n", sqe.opcode, strerror(-result));
}

static void names(int dir)
{
	struct statx stx;
	ask((struct io_uring_sqe){.opcode = IORING_OP_MKDIRAT, .fd = dir, .addr = ADDRESS("made"), .len = 0750});
	ask((struct io_uring_sqe){.opcode = IORING_OP_RENAMEAT, .fd = AT_FDCWD, .addr = ADDRESS("file"),
				  .len = dir, .addr2 = ADDRESS("made/moved")});
	ask((struct io_uring_sqe){.opcode = IORING_OP_LINKAT, .fd = dir, .addr = ADDRESS("made/moved"),
				  .len = AT_FDCWD, .addr2 = ADDRESS("hard")});
	ask((struct io_uring_sqe){.opcode = IORING_OP_SYMLINKAT, .fd = dir, .addr = ADDRESS("made/moved"),
				  .addr2 = ADDRESS("soft")});
	ask((struct io_uring_sqe){.opcode = IORING_OP_STATX, .fd = AT_FDCWD, .addr = ADDRESS("hard"),
				  .len = STATX_BASIC_STATS, .off = ADDRESS(&stx)});
	ask((struct io_uring_sqe){.opcode = IORING_OP_STATX, .fd = AT_FDCWD, .addr = ADDRESS("absent"),
				  .len = STATX_BASIC_STATS, .off = ADDRESS(&stx)});
	ask((struct io_uring_sqe){.opcode = IORING_OP_STATX, .fd = dir, .addr = ADDRESS(""),
				  .len = STATX_BASIC_STATS, .off = ADDRESS(&stx), .statx_flags = AT_EMPTY_PATH});
	ask((struct io_uring_sqe){.opcode = IORING_OP_UNLINKAT, .fd = AT_FDCWD, .addr = ADDRESS("hard")});
	ask((struct io_uring_sqe){.opcode = IORING_OP_MKDIRAT, .fd = dir, .addr = ADDRESS("gone"), .len = 0750});
	ask((struct io_uring_sqe){.opcode = IORING_OP_UNLINKAT, .fd = dir, .addr = ADDRESS("gone"),
				  .unlink_flags = AT_REMOVEDIR});
}

static void file(int fd)
{
	int ends[2];
	ask((struct io_uring_sqe){.opcode = IORING_OP_FALLOCATE, .fd = fd, .off = 4096, .addr = 8192, .len = 1});
	ask((struct io_uring_sqe){.opcode = FTRUNCATE, .fd = fd, .off = 12345});
	ask((struct io_uring_sqe){.opcode = IORING_OP_FADVISE, .fd = fd, .off = 10, .len = 100,
				  .fadvise_advice = POSIX_FADV_WILLNEED});
	ask((struct io_uring_sqe){.opcode = IORING_OP_SYNC_FILE_RANGE, .fd = fd, .off = 20, .len = 200,
				  .sync_range_flags = SYNC_FILE_RANGE_WRITE});
	MUST(pipe(ends));
	ask((struct io_uring_sqe){.opcode = IORING_OP_SPLICE, .fd = ends[1], .off = -1, .splice_off_in = 30,
				  .splice_fd_in = fd, .len = 300});
	ask((struct io_uring_sqe){.opcode = IORING_OP_SPLICE, .fd = fd, .off = 7000, .splice_off_in = -1,
				  .splice_fd_in = ends[0], .len = 300});
	ask((struct io_uring_sqe){.opcode = IORING_OP_FSETXATTR, .fd = fd, .addr = ADDRESS("user.a"),
				  .addr2 = ADDRESS("12"), .len = 2});
	ask((struct io_uring_sqe){.opcode = IORING_OP_GETXATTR, .addr = ADDRESS("user.a"),
				  .addr3 = ADDRESS("file"), .addr2 = ADDRESS(ends), .len = 8});
	/* Of a registered file the index, whatever its descriptor was. */
	MUST(syscall(SYS_io_uring_register, ring_of.fd, IORING_REGISTER_FILES, &fd, 1));
	ask((struct io_uring_sqe){.opcode = IORING_OP_FALLOCATE, .fd = 0, .addr = 20000,
				  .flags = IOSQE_FIXED_FILE});
}

int main(int argc, char **argv)
{
	if (begin_ring() < 0)
		return 9;
	int fd = open("file", O_CREAT | O_RDWR, 0644);
	MUST(fd);
	MUST(mkdir("dir", 0755));
	int dir = open("dir", O_RDONLY | O_DIRECTORY);
	MUST(dir);
	if (argc > 1) {
		int none = -1, ends[2];
		MUST(pipe(ends));
		MUST(syscall(SYS_io_uring_register, ring_of.fd, IORING_REGISTER_FILES, &none, 1));
		ask((struct io_uring_sqe){.opcode = IORING_OP_OPENAT, .fd = AT_FDCWD, .addr = ADDRESS("file"),
					  .file_index = 1});
		ask((struct io_uring_sqe){.opcode = IORING_OP_CLOSE, .file_index = 1});
		submit((struct io_uring_sqe){.opcode = FTRUNCATE, .fd = fd, .off = 5,
					     .flags = IOSQE_CQE_SKIP_SUCCESS}, 0);
		submit((struct io_uring_sqe){.opcode = IORING_OP_WRITE, .fd = ends[1], .addr = ADDRESS("x"), .len = 1,
					     .flags = IOSQE_CQE_SKIP_SUCCESS}, 0);
		return 0;
	}
	file(fd);
	names(dir);
	return 0;
}
