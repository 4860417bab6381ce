/* Makes every captured system call in the current directory; tests/calls.rs says what must come. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

static void check(long result, const char *what)
{
	if (result < 0) {
		perror(what);
		exit(1);
	}
}
#define MUST(call) check((long)(call), #call)

#include "ring.h"

static char page[8192];

static void *in_thread(void *unused)
{
	int fd = open("thread", O_CREAT | O_RDWR, 0644);
	MUST(write(fd, "thread", 6));
	MUST(close(fd));
	return unused;
}

static void data(void)
{
	struct iovec two[2] = {{page, 100}, {page, 200}};
	int fd = open("file", O_CREAT | O_TRUNC | O_RDWR, 0644), other, ends[2];
	MUST(fd);
	MUST(write(fd, page, 4096));
	MUST(pwrite(fd, page, 1000, 5000));
	MUST(writev(fd, two, 2));
	MUST(pwritev(fd, two, 2, 8000));
	MUST(lseek(fd, 10, SEEK_SET));
	MUST(read(fd, page, 50));
	MUST(pread(fd, page, 60, 70));
	MUST(readv(fd, two, 2));
	MUST(preadv(fd, two, 2, 400));
	MUST(preadv2(fd, two, 2, 500, 0));
	other = open("append", O_CREAT | O_WRONLY | O_APPEND, 0644);
	MUST(write(other, page, 7));
	MUST(write(other, page, 7));
	loff_t in = 16, out = 32;
	MUST(close(other));
	other = open("copy", O_CREAT | O_RDWR, 0644);
	MUST(copy_file_range(fd, &in, other, &out, 64, 0));
	off_t from = 128;
	MUST(sendfile(other, fd, &from, 256));
	MUST(pipe(ends));
	from = 700;
	MUST(sendfile(ends[1], fd, &from, 20));
	MUST(read(ends[0], page, 20));
	in = 512;
	MUST(splice(fd, &in, ends[1], 0, 33, 0));
	out = 2048;
	MUST(splice(ends[0], 0, other, &out, 33, 0));
	MUST(fsync(fd));
	MUST(fdatasync(fd));
	MUST(sync_file_range(fd, 0, 4096, SYNC_FILE_RANGE_WRITE));
	MUST(syncfs(fd));
	MUST(ftruncate(fd, 20000));
	MUST(fallocate(fd, 0, 20000, 5000));
	MUST(posix_fadvise(fd, 0, 4096, POSIX_FADV_WILLNEED));
	MUST(flock(fd, LOCK_EX));
	struct flock lock = {.l_type = F_WRLCK, .l_start = 5, .l_len = 6};
	MUST(fcntl(fd, F_SETLK, &lock));
	char *map = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096);
	map[0] = 1;
	map[4096] = 2;
	MUST(msync(map, 8192, MS_SYNC));
	MUST(munmap(map, 8192));
	int copy = dup(fd);
	MUST(copy);
	MUST(dup2(fd, 100));
	MUST(dup3(fd, 101, O_CLOEXEC));
	MUST(fcntl(fd, F_DUPFD_CLOEXEC, 102));
	MUST(syscall(SYS_close_range, 100, 110, 0));
	MUST(fchmod(fd, 0600));
	MUST(fchown(fd, 0, 0));
	MUST(futimens(fd, 0));
	struct statfs fs;
	MUST(fstatfs(fd, &fs));
	struct stat st;
	MUST(fstat(fd, &st));
	fsetxattr(fd, "user.a", "1", 1, 0);
	fgetxattr(fd, "user.a", page, 10);
	MUST(close(fd));
}

static void names(void)
{
	struct stat st;
	struct statx stx;
	struct statfs fs;
	MUST(mkdir("dir", 0755));
	int dir = open("dir", O_RDONLY | O_DIRECTORY);
	MUST(dir);
	int fd = openat(dir, "inner", O_CREAT | O_WRONLY, 0644);
	MUST(write(fd, "abc", 3));
	MUST(close(fd));
	MUST(mkdirat(dir, "sub", 0755));
	MUST(fstatat(dir, "inner", &st, 0));
	MUST(statx(dir, "inner", 0, STATX_BASIC_STATS, &stx));
	MUST(lstat("dir", &st));
	MUST(syscall(SYS_stat, "dir/inner", &st));
	MUST(access("dir/inner", R_OK));
	MUST(faccessat(dir, "inner", F_OK, 0));
	stat("absent", &st);
	MUST(link("dir/inner", "hard"));
	MUST(symlink("dir/inner", "soft"));
	MUST(readlink("soft", page, 100));
	MUST(truncate("hard", 2));
	MUST(chmod("hard", 0600));
	MUST(chown("hard", 0, 0));
	MUST(utimes("hard", 0));
	setxattr("hard", "user.b", "22", 2, 0);
	getxattr("hard", "user.b", page, 10);
	listxattr("hard", page, 100);
	removexattr("hard", "user.b");
	MUST(statfs("dir", &fs));
	MUST(syscall(SYS_getdents64, dir, page, sizeof(page)));
	MUST(rename("dir/inner", "dir/moved"));
	MUST(renameat(dir, "moved", dir, "again"));
	MUST(chdir("dir"));
	MUST(unlink("again"));
	MUST(rmdir("sub"));
	MUST(chdir(".."));
	MUST(fchdir(dir));
	MUST(access("../hard", F_OK));
	MUST(chdir(".."));
	MUST(unlink("soft"));
	MUST(unlinkat(AT_FDCWD, "dir", AT_REMOVEDIR));
	sync();
}

static void uring(void)
{
	int ring = begin_ring();
	if (ring < 0)
		return;
	int fd = open("uring", O_CREAT | O_RDWR, 0644);
	struct io_uring_sqe write = {.opcode = IORING_OP_WRITE, .fd = fd, .off = 4096,
				     .addr = (unsigned long)page, .len = 300};
	request(write);
	struct io_uring_sqe read = write;
	read.opcode = IORING_OP_READ;
	read.off = 4100;
	read.len = 100;
	request(read);
	struct io_uring_sqe sync = {.opcode = IORING_OP_FSYNC, .fd = fd,
				    .fsync_flags = IORING_FSYNC_DATASYNC};
	request(sync);
	struct io_uring_sqe open = {.opcode = IORING_OP_OPENAT, .fd = AT_FDCWD,
				    .addr = (unsigned long)"uring", .open_flags = O_RDONLY};
	request(open);
	/* A registered file is named by its index, whatever its descriptor was and that it is closed. */
	int other = openat(AT_FDCWD, "registered", O_CREAT | O_RDWR, 0644);
	MUST(syscall(SYS_io_uring_register, ring, IORING_REGISTER_FILES, &other, 1));
	MUST(close(other));
	struct io_uring_sqe fixed = write;
	fixed.fd = 0;
	fixed.flags = IOSQE_FIXED_FILE;
	fixed.len = 50;
	request(fixed);
	puts("uring");
}

/* As libaio does it: a write, a read by two buffers, and one that is refused; 0 where there is no aio. */
static void aio(void)
{
	aio_context_t context = 0;
	if (syscall(SYS_io_setup, 4, &context) < 0)
		return;
	int fd = open("aio", O_CREAT | O_RDWR, 0644);
	struct iovec two[2] = {{page, 60}, {page + 60, 40}};
	struct iocb requests[3] = {
		{.aio_lio_opcode = IOCB_CMD_PWRITE, .aio_fildes = fd, .aio_offset = 4096,
		 .aio_buf = (unsigned long)page, .aio_nbytes = 300},
		{.aio_lio_opcode = IOCB_CMD_PREADV, .aio_fildes = fd, .aio_offset = 4100,
		 .aio_buf = (unsigned long)two, .aio_nbytes = 2},
		{.aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = fd, .aio_offset = -5,
		 .aio_buf = (unsigned long)page, .aio_nbytes = 100},
	};
	for (int i = 0; i < 3; i++) {
		struct iocb *one = requests + i;
		struct io_event done;
		if (syscall(SYS_io_submit, context, 1, &one) == 1)
			MUST(syscall(SYS_io_getevents, context, 1, 1, &done, 0));
	}
	puts("aio");
}

int main(int argc, char **argv)
{
	if (argc > 1) { /* after exec: the inherited descriptor is 50 */
		MUST(read(50, page, 3));
		return 5;
	}
	data();
	names();
	pthread_t thread;
	MUST(pthread_create(&thread, 0, in_thread, 0));
	pthread_join(thread, 0);
	MUST(dup2(open("file", O_RDONLY), 50));
	int status;
	pid_t child = fork();
	if (child == 0)
		execl(argv[0], argv[0], "again", (char *)0);
	MUST(waitpid(child, &status, 0));
	child = vfork();
	if (child == 0)
		_exit(4);
	MUST(waitpid(child, &status, 0));
	uring();
	aio();
	return 7;
}
