/* Sits in blocking calls that end with EINTR when a tracer stops them carelessly, and works in
 * between; ends with 0 when its standard input is closed, with something else if anything failed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int failed;
static volatile int stop;
static volatile sig_atomic_t signals;
static void on_signal(int number) { (void)number; signals++; }

static void *in_epoll(void *ends) {
    struct epoll_event event = {.events = EPOLLIN};
    int set = epoll_create1(0);
    epoll_ctl(set, EPOLL_CTL_ADD, ((int *)ends)[0], &event);
    if (epoll_wait(set, &event, 1, -1) != 1) failed = 1;
    return NULL;
}

static void *in_read(void *ends) {
    char byte;
    if (read(((int *)ends)[0], &byte, 1) != 0) failed = 2;
    return NULL;
}

static void *in_sleep(void *unused) {
    (void)unused;
    struct timespec nap = {0, 5000000};
    while (!stop)
        if (nanosleep(&nap, NULL)) failed = 3;
    return NULL;
}

static void *in_poll(void *ends) {
    struct pollfd wait = {.fd = ((int *)ends)[0], .events = POLLIN};
    if (poll(&wait, 1, -1) != 1) failed = 4;
    return NULL;
}

static void *in_files(void *path) {
    char data[64] = {0};
    while (!stop) {
        int fd = open(path, O_RDWR | O_CREAT, 0644);
        if (fd < 0 || pwrite(fd, data, 64, 0) != 64 || close(fd)) failed = 5;
        usleep(500);
    }
    return NULL;
}

int main(int argc, char **argv) {
    int ends[2];
    char byte;
    pthread_t threads[5];
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigset_t usr1;
    if (argc < 2 || pipe(ends)) return 99;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigaction(SIGUSR1, &action, NULL);
    pthread_sigmask(SIG_BLOCK, &usr1, NULL);
    pthread_create(&threads[0], NULL, in_epoll, ends);
    pthread_create(&threads[1], NULL, in_read, ends);
    pthread_create(&threads[2], NULL, in_sleep, NULL);
    pthread_create(&threads[3], NULL, in_poll, ends);
    pthread_create(&threads[4], NULL, in_files, argv[1]);
    pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
    printf("ready\n");
    fflush(stdout);
    /* One byte in: the number of signals out. */
    ssize_t got;
    while ((got = read(0, &byte, 1)) == 1) {
        printf("%d\n", (int)signals);
        fflush(stdout);
    }
    if (got < 0) failed = 6;
    stop = 1;
    close(ends[1]);
    for (int i = 0; i < 5; i++) pthread_join(threads[i], NULL);
    return failed;
}
