// The kernel's threads: `pthread COMPUTING SLEEPS` (README.md). The kernel's scheduler pre-empts; the
// threads' timer slack is as it comes, 50 µs.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static uint64_t steps;
static atomic_long rounds;
static _Atomic uint64_t sink;

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static int64_t now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec * INT64_C(1000000000) + at.tv_nsec;
}

// The chain that every contestant computes; no step can begin before the one ahead has ended.
static __attribute__((noinline)) uint64_t spin(uint64_t count) {
  uint64_t x = 0x9e3779b97f4a7c15;
  for (uint64_t i = 0; i < count; i++)
    x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9;
  return x;
}

// How many steps take a millisecond: by the quickest of a few tries.
static uint64_t steps_per_ms(void) {
  int64_t best = INT64_MAX;
  for (int i = 0; i < 9; i++) {
    int64_t start = now();
    sink = spin(1000000);
    int64_t took = now() - start;
    if (took < best)
      best = took;
  }
  return (uint64_t)(INT64_C(1000000) * 1000000 / best);
}

static void *compute(void *unused) {
  for (;;) {
    sink = spin(steps);
    atomic_fetch_add(&rounds, 1);
    sched_yield();
  }
  return unused;
}

static void *echo(void *argument) {
  int fd = (int)(intptr_t)argument, on = 1;
  if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0)
    fail("TCP_NODELAY");
  char buffer[65536];
  for (;;) {
    ssize_t length = recv(fd, buffer, sizeof buffer, 0);
    if (length <= 0)
      break;
    for (ssize_t sent = 0, part; sent < length; sent += part) {
      part = send(fd, buffer + sent, (size_t)(length - sent), MSG_NOSIGNAL);
      if (part < 0)
        goto end;
    }
  }
end:
  close(fd);
  return NULL;
}

static void start(void *(*run)(void *), void *argument) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, run, argument) != 0)
    fail("pthread_create");
  pthread_detach(thread);
}

static void *accepting(void *argument) {
  for (;;) {
    int fd = accept((int)(intptr_t)argument, NULL, NULL);
    if (fd < 0)
      fail("accept");
    start(echo, (void *)(intptr_t)fd);
  }
  return NULL;
}

static int listening(void) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  if (fd < 0 || bind(fd, (struct sockaddr *)&at, size) < 0)
    fail("bind");
  if (listen(fd, 64) < 0 || getsockname(fd, (struct sockaddr *)&at, &size) < 0)
    fail("listen");
  printf("%d\n", ntohs(at.sin_port));
  fflush(stdout);
  return fd;
}

int main(int argc, char **argv) {
  long computing = argc == 3 ? atol(argv[1]) : -1, sleeps = argc == 3 ? atol(argv[2]) : 0;
  if (computing < 0 || sleeps < 1) {
    fprintf(stderr, "usage: pthread COMPUTING SLEEPS\n");
    return 2;
  }
  steps = steps_per_ms();
  start(accepting, (void *)(intptr_t)listening());
  for (long i = 0; i < computing; i++)
    start(compute, NULL);
  int64_t *late = malloc((size_t)sleeps * sizeof *late);
  if (late == NULL)
    fail("malloc");
  int64_t begin = now();
  for (long i = 0; i < sleeps; i++) {
    struct timespec ms = {.tv_nsec = 1000000};
    int64_t due = now() + 1000000;
    nanosleep(&ms, NULL);
    late[i] = now() - due;
  }
  double computed = (double)rounds / ((double)(now() - begin) / 1e9);
  for (long i = 0; i < sleeps; i++)
    printf("%lld ", (long long)(late[i] > 0 ? late[i] : 0));
  printf("\n%.3f\n", computed);
  fflush(stdout);
  // The client may still ask; the benchmark ends this program.
  for (;;)
    pause();
}
