// The plainest server: one thread, epoll, no runtime. `epoll tcp|udp` prints its port on 127.0.0.1
// and sends back what it receives until it is killed.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static char buffer[65536];

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static int bound(int type) {
  int fd = socket(AF_INET, type | SOCK_NONBLOCK, 0);
  if (fd < 0)
    fail("socket");
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  if (bind(fd, (struct sockaddr *)&at, size) < 0)
    fail("bind");
  if (getsockname(fd, (struct sockaddr *)&at, &size) < 0)
    fail("getsockname");
  if (type == SOCK_STREAM && listen(fd, 1024) < 0)
    fail("listen");
  printf("%d\n", ntohs(at.sin_port));
  fflush(stdout);
  return fd;
}

static void watch(int epoll, int fd) {
  struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
    fail("epoll_ctl");
}

static void accept_all(int epoll, int listener) {
  int fd;
  while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
    int on = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0)
      fail("TCP_NODELAY");
    watch(epoll, fd);
  }
}

// What a client has not read yet may fill the socket: then the server waits for it. The clients of
// this benchmark always read.
static int send_all(int fd, ssize_t length) {
  for (ssize_t sent = 0; sent < length;) {
    ssize_t part = send(fd, buffer + sent, (size_t)(length - sent), MSG_NOSIGNAL);
    if (part < 0 && errno != EAGAIN && errno != EINTR)
      return -1;
    if (part > 0)
      sent += part;
  }
  return 0;
}

static void answer(int fd) {
  ssize_t length = recv(fd, buffer, sizeof buffer, 0);
  if (length < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (length <= 0 || send_all(fd, length) < 0)
    close(fd);
}

static void answer_datagrams(int fd) {
  struct sockaddr_in from;
  for (;;) {
    socklen_t size = sizeof from;
    ssize_t length = recvfrom(fd, buffer, sizeof buffer, 0, (struct sockaddr *)&from, &size);
    if (length < 0)
      return;
    sendto(fd, buffer, (size_t)length, 0, (struct sockaddr *)&from, size);
  }
}

int main(int argc, char **argv) {
  int udp = argc == 2 && !strcmp(argv[1], "udp");
  if (!udp && (argc != 2 || strcmp(argv[1], "tcp"))) {
    fprintf(stderr, "usage: epoll tcp|udp\n");
    return 2;
  }
  int server = bound(udp ? SOCK_DGRAM : SOCK_STREAM);
  int epoll = epoll_create1(0);
  if (epoll < 0)
    fail("epoll_create1");
  watch(epoll, server);
  for (;;) {
    struct epoll_event events[64];
    int ready = epoll_wait(epoll, events, 64, -1);
    for (int i = 0; i < ready; i++) {
      int fd = events[i].data.fd;
      if (fd != server)
        answer(fd);
      else if (udp)
        answer_datagrams(fd);
      else
        accept_all(epoll, fd);
    }
  }
}
