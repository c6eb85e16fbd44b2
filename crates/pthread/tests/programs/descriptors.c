// What waits for descriptors: sockets, pipes, counters, timers; several at once.

#define _GNU_SOURCE
#include "check.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>
static int listener;
static struct sockaddr_in at;
static void *serve(void *argument) {
  int fd = (int)(long)argument;
  char b[256];
  ssize_t n;
  while ((n = read(fd, b, sizeof b)) > 0)
    CHECK(write(fd, b, n) == n);
  CHECK(n == 0);
  close(fd);
  return 0;
}
static void *acceptor(void *argument) {
  for (int i = 0; i < 50; i++) {
    int fd = accept(listener, 0, 0);
    CHECK(fd >= 0);
    pthread_t t;
    pthread_create(&t, 0, serve, (void *)(long)fd);
    pthread_detach(t);
  }
  return 0;
}
static void *client(void *argument) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(connect(fd, (void *)&at, sizeof at) == 0);
  CHECK((fcntl(fd, F_GETFL) & O_NONBLOCK) == 0);
  char b[64];
  for (int i = 0; i < 200; i++) {
    int n = sprintf(b, "hello %d", i);
    CHECK(send(fd, b, n, 0) == n);
    char c[64];
    CHECK(recv(fd, c, n, MSG_WAITALL) == n);
    CHECK(!memcmp(b, c, n));
  }
  close(fd);
  return 0;
}
static int pipes[2];
static void *writer(void *argument) {
  size_t n = 3 << 20;
  char *b = malloc(n);
  memset(b, 'x', n);
  CHECK(write(pipes[1], b, n) == (ssize_t)n);
  free(b);
  close(pipes[1]);
  return 0;
}
static int ev;
static void *later(void *argument) {
  usleep(20000);
  uint64_t one = 1;
  CHECK(write(ev, &one, 8) == 8);
  return 0;
}
static void echo(void) {
  listener = socket(AF_INET, SOCK_STREAM, 0);
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(bind(listener, (void *)&at, sizeof at) == 0);
  socklen_t l = sizeof at;
  getsockname(listener, (void *)&at, &l);
  CHECK(listen(listener, 128) == 0);
  pthread_t a[2], c[100];
  for (int i = 0; i < 2; i++)
    pthread_create(&a[i], 0, acceptor, 0);
  for (int i = 0; i < 100; i++)
    pthread_create(&c[i], 0, client, 0);
  for (int i = 0; i < 100; i++)
    pthread_join(c[i], 0);
  for (int i = 0; i < 2; i++)
    pthread_join(a[i], 0);
  printf("echo ok\n");
}

static void through_a_pipe(void) {
  CHECK(pipe(pipes) == 0);
  pthread_t w;
  pthread_create(&w, 0, writer, 0);
  size_t all = 0;
  char b[5000];
  ssize_t n;
  while ((n = read(pipes[0], b, sizeof b)) > 0)
    all += n;
  pthread_join(w, 0);
  printf("pipe %zu\n", all);
}

static void one_of_several(void) {
  pthread_t w;
  ev = eventfd(0, 0);
  pthread_create(&w, 0, later, 0);
  struct pollfd p[2] = {{ev, POLLIN, 0}, {listener, POLLIN, 0}};
  CHECK(poll(p, 2, 5000) == 1 && p[0].revents == POLLIN);
  uint64_t v;
  CHECK(read(ev, &v, 8) == 8 && v == 1);
  pthread_join(w, 0);
  pthread_create(&w, 0, later, 0);
  CHECK(read(ev, &v, 8) == 8 && v == 1);
  pthread_join(w, 0);
  CHECK(poll(p, 1, 10) == 0);
  CHECK(poll(0, 0, 10) == 0);
  pthread_create(&w, 0, later, 0);
  fd_set s;
  FD_ZERO(&s);
  FD_SET(ev, &s);
  FD_SET(listener, &s);
  struct timeval tv = {5, 0};
  CHECK(select(ev + 1, &s, 0, 0, &tv) == 1 && FD_ISSET(ev, &s) && !FD_ISSET(listener, &s));
  CHECK(tv.tv_sec <= 4);
  CHECK(read(ev, &v, 8) == 8);
  pthread_join(w, 0);
}

static void counters_and_limits(void) {
  pthread_t w;
  uint64_t v;
  char b[200];
  int ep = epoll_create1(0);
  struct epoll_event e = {.events = EPOLLIN, .data.fd = ev};
  CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, ev, &e) == 0);
  CHECK(epoll_wait(ep, &e, 1, 5) == 0);
  for (int i = 0; i < 5; i++) {
    pthread_create(&w, 0, later, 0);
    CHECK(epoll_wait(ep, &e, 1, -1) == 1 && e.data.fd == ev);
    CHECK(read(ev, &v, 8) == 8);
    pthread_join(w, 0);
  }
  int tf = timerfd_create(CLOCK_MONOTONIC, 0);
  struct itimerspec it = {{0, 0}, {0, 5000000}};
  timerfd_settime(tf, 0, &it, 0);
  CHECK(read(tf, &v, 8) == 8 && v == 1);
  struct timeval to = {0, 20000};
  int u = socket(AF_INET, SOCK_DGRAM, 0);
  struct sockaddr_in ua = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  CHECK(bind(u, (void *)&ua, sizeof ua) == 0);
  setsockopt(u, SOL_SOCKET, SO_RCVTIMEO, &to, sizeof to);
  CHECK(recv(u, b, 10, 0) == -1 && errno == EAGAIN);
  int f = open("/etc/passwd", O_RDONLY);
  CHECK(read(f, b, 100) == 100);
  close(f);
  CHECK(fcntl(ev, F_SETFL, O_NONBLOCK) == 0);
  CHECK(read(ev, &v, 8) == -1 && errno == EAGAIN);
}

int main(void) {
  echo();
  through_a_pipe();
  one_of_several();
  counters_and_limits();
  printf("all ok\n");
  return 0;
}
