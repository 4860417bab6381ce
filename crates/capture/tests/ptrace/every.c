/* Makes every captured call at least once, with threads, children and signals, in the current
 * directory. Each call is made by number, so that the C library chooses nothing. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

static volatile sig_atomic_t signals;
static void on_signal(int number) { (void)number; signals++; }

static long must(long result, int line) {
    if (result < 0) {
        fprintf(stderr, "line %d: %s\n", line, strerror(errno));
        exit(99);
    }
    return result;
}
#define CALL(...) must(syscall(__VA_ARGS__), __LINE__)
#define TRY(...) syscall(__VA_ARGS__)

static char data[8192];

static void on_data(int fd, int other) {
    struct iovec parts[2] = {{data, 1000}, {data + 1000, 24}};
    CALL(SYS_write, fd, data, 4096);
    CALL(SYS_lseek, fd, 100L, SEEK_SET);
    CALL(SYS_read, fd, data, 50);
    CALL(SYS_pread64, fd, data, 4096, 0L);
    CALL(SYS_pwrite64, fd, data, 4096, 4096L);
    CALL(SYS_lseek, fd, 0L, SEEK_SET);
    CALL(SYS_readv, fd, parts, 2);
    CALL(SYS_writev, fd, parts, 2);
    CALL(SYS_preadv, fd, parts, 2, 0L, 0L);
    CALL(SYS_pwritev, fd, parts, 2, 0L, 0L);
    CALL(SYS_preadv2, fd, parts, 2, 0L, 0L, 0);
    CALL(SYS_pwritev2, fd, parts, 2, 0L, 0L, 0);
    off_t in = 16, out = 32;
    TRY(SYS_copy_file_range, fd, &in, other, &out, 100L, 0);
    off_t from = 8;
    CALL(SYS_sendfile, other, fd, &from, 100L);
    int ends[2];
    must(pipe(ends), __LINE__);
    off_t at = 64;
    CALL(SYS_splice, fd, &at, ends[1], NULL, 200L, 0);
    CALL(SYS_splice, ends[0], NULL, other, NULL, 200L, 0);
    CALL(SYS_close, ends[0]);
    CALL(SYS_close, ends[1]);
}

static void on_file(int fd) {
    struct stat st;
    struct statfs fs;
    CALL(SYS_fstat, fd, &st);
    CALL(SYS_fstatfs, fd, &fs);
    CALL(SYS_ftruncate, fd, 10000L);
    TRY(SYS_fallocate, fd, 0, 0L, 20000L);
    CALL(SYS_fsync, fd);
    CALL(SYS_fdatasync, fd);
    CALL(SYS_syncfs, fd);
    TRY(SYS_sync_file_range, fd, 0L, 4096L, 0);
    CALL(SYS_fchmod, fd, 0600);
    CALL(SYS_fchown, fd, -1, -1);
    CALL(SYS_fadvise64, fd, 0L, 0L, POSIX_FADV_NORMAL);
    CALL(SYS_readahead, fd, 0L, 4096L);
    TRY(SYS_fsetxattr, fd, "user.fsage", "v", 1L, 0);
    TRY(SYS_fgetxattr, fd, "user.fsage", data, 10L);
    TRY(SYS_flistxattr, fd, data, 100L);
    TRY(SYS_fremovexattr, fd, "user.fsage");
    CALL(SYS_flock, fd, 2);
    CALL(SYS_flock, fd, 8);
    struct flock lock = {.l_type = F_WRLCK, .l_start = 11, .l_len = 22};
    CALL(SYS_fcntl, fd, F_SETLK, &lock);
    CALL(SYS_fcntl, fd, F_SETFD, FD_CLOEXEC);
    CALL(SYS_fcntl, fd, F_GETFD);
    CALL(SYS_close, CALL(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 20));
    CALL(SYS_close, CALL(SYS_dup, fd));
    CALL(SYS_dup2, fd, 30);
    CALL(SYS_dup3, fd, 31, O_CLOEXEC);
    CALL(SYS_close_range, 30, 31, 0);
    char *map = (char *)CALL(SYS_mmap, NULL, 4096L, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0L);
    map[5] = 1;
    CALL(SYS_msync, map, 4096L, MS_SYNC);
    map = (char *)CALL(SYS_mremap, map, 4096L, 8192L, MREMAP_MAYMOVE, NULL);
    CALL(SYS_munmap, map, 8192L);
}

static void on_names(int dir) {
    struct stat st;
    struct statx stx;
    struct statfs fs;
    struct open_how how = {
        .flags = O_RDWR | O_CREAT, .mode = 0640, .resolve = RESOLVE_BENEATH};
    CALL(SYS_close, CALL(SYS_open, "a", O_RDWR | O_CREAT, 0644));
    CALL(SYS_close, CALL(SYS_creat, "b", 0644));
    CALL(SYS_close, CALL(SYS_openat, dir, "c", O_RDWR | O_CREAT, 0644));
    CALL(SYS_close, CALL(SYS_openat2, AT_FDCWD, "d", &how, sizeof how));
    CALL(SYS_stat, "a", &st);
    CALL(SYS_lstat, "a", &st);
    CALL(SYS_newfstatat, dir, "c", &st, 0);
    CALL(SYS_statx, AT_FDCWD, "a", 0, STATX_BASIC_STATS, &stx);
    CALL(SYS_statfs, ".", &fs);
    CALL(SYS_access, "a", 0);
    CALL(SYS_faccessat, dir, "c", 0);
    TRY(SYS_faccessat2, dir, "missing", 0, 0);
    CALL(SYS_mkdir, "m", 0755);
    CALL(SYS_mkdirat, dir, "m", 0755);
    CALL(SYS_rmdir, "m");
    CALL(SYS_unlinkat, dir, "m", AT_REMOVEDIR);
    CALL(SYS_mknod, "n", S_IFREG | 0644, 0L);
    CALL(SYS_mknodat, dir, "n", S_IFREG | 0644, 0L);
    CALL(SYS_unlink, "n");
    CALL(SYS_rename, "a", "a2");
    CALL(SYS_renameat, AT_FDCWD, "a2", dir, "a3");
    CALL(SYS_renameat2, dir, "a3", AT_FDCWD, "a", 0);
    CALL(SYS_link, "a", "l");
    CALL(SYS_linkat, AT_FDCWD, "a", dir, "l", 0);
    CALL(SYS_symlink, "target", "s");
    CALL(SYS_symlinkat, "target text", dir, "s");
    CALL(SYS_readlink, "s", data, 100L);
    CALL(SYS_readlinkat, dir, "s", data, 100L);
    CALL(SYS_truncate, "a", 5000L);
    CALL(SYS_chmod, "a", 0644);
    CALL(SYS_fchmodat, dir, "c", 0644);
    TRY(SYS_fchmodat2, dir, "c", 0644, 0);
    CALL(SYS_chown, "a", -1, -1);
    CALL(SYS_lchown, "s", -1, -1);
    CALL(SYS_fchownat, dir, "c", -1, -1, 0);
    CALL(SYS_utime, "a", NULL);
    CALL(SYS_utimes, "a", NULL);
    CALL(SYS_futimesat, dir, "c", NULL);
    CALL(SYS_utimensat, dir, "c", NULL, 0);
    TRY(SYS_setxattr, "a", "user.x", "v", 1L, 0);
    TRY(SYS_lsetxattr, "a", "user.x", "v", 1L, 0);
    TRY(SYS_getxattr, "a", "user.x", data, 10L);
    TRY(SYS_lgetxattr, "a", "user.x", data, 10L);
    TRY(SYS_listxattr, "a", data, 100L);
    TRY(SYS_llistxattr, "a", data, 100L);
    TRY(SYS_removexattr, "a", "user.x");
    TRY(SYS_lremovexattr, "a", "user.x");
    TRY(SYS_open, (char *)8, O_RDONLY);
    CALL(SYS_chdir, ".");
    CALL(SYS_fchdir, dir);
    CALL(SYS_chdir, "..");
    CALL(SYS_getdents64, dir, data, 8000L);
    CALL(SYS_getdents, dir, data, 8000L);
}

static void *in_thread(void *name) {
    for (int i = 0; i < 50; i++) {
        int fd = CALL(SYS_openat, AT_FDCWD, name, O_RDWR | O_CREAT, 0644);
        CALL(SYS_pwrite64, fd, data, 100, 0L);
        CALL(SYS_close, fd);
    }
    return NULL;
}

static void *execute(void *self) {
    char *argv[] = {self, "child", NULL};
    TRY(SYS_execve, self, argv, environ);
    exit(98);
}

static void with_processes(char *self) {
    pthread_t threads[4];
    char *names[4] = {"t0", "t1", "t2", "t3"};
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, in_thread, names[i]);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    char *argv[] = {self, "child", NULL};
    pid_t pid = fork();
    if (pid == 0) {
        TRY(SYS_execve, "/nonexistent/program", argv, environ);
        TRY(SYS_execve, self, argv, environ);
        _exit(97);
    }
    int status;
    waitpid(pid, &status, 0);
    if (status != 7 << 8) exit(96);
    pid = vfork();
    if (pid == 0) {
        syscall(SYS_execveat, AT_FDCWD, self, argv, environ, 0);
        _exit(97);
    }
    waitpid(pid, &status, 0);
    if (status != 7 << 8) exit(95);
    /* A thread that is not the leader runs another program. */
    pid = fork();
    if (pid == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, execute, self);
        pthread_join(thread, NULL);
    }
    waitpid(pid, &status, 0);
    if (status != 7 << 8) exit(94);
    /* One that is killed. */
    pid = fork();
    if (pid == 0) for (;;) pause();
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    if (status != SIGKILL) exit(93);
}

static void with_signals(void) {
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    pid_t pid = fork();
    if (pid == 0) {
        raise(SIGSTOP);
        raise(SIGUSR1);
        _exit(signals == 2 ? 5 : 6);
    }
    int status;
    waitpid(pid, &status, WUNTRACED);
    if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGSTOP) exit(92);
    usleep(20000);
    if (waitpid(pid, &status, WNOHANG) != 0) exit(91);
    kill(pid, SIGCONT);
    waitpid(pid, &status, 0);
    if (status != 5 << 8) exit(90);
    /* A read that a signal interrupts. */
    int ends[2];
    must(pipe(ends), __LINE__);
    struct itimerval soon = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &soon, NULL);
    if (syscall(SYS_read, ends[0], data, 1L) != -1 || errno != EINTR) exit(89);
    setitimer(ITIMER_REAL, &never, NULL);
    CALL(SYS_close, ends[0]);
    CALL(SYS_close, ends[1]);
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "child")) {
        CALL(SYS_close, CALL(SYS_openat, AT_FDCWD, "child", O_RDWR | O_CREAT, 0644));
        return 7;
    }
    mkdir("dir", 0755);
    int dir = CALL(SYS_open, "dir", O_RDONLY | O_DIRECTORY);
    int fd = CALL(SYS_openat, AT_FDCWD, "file", O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0644);
    int other = CALL(SYS_open, "other", O_RDWR | O_CREAT, 0644);
    on_data(fd, other);
    on_file(fd);
    on_names(dir);
    with_processes(argv[0]);
    with_signals();
    CALL(SYS_sync);
    return 42;
}
