// A thread whose calls the kernel answers at once, beside one that is ready.

#define _GNU_SOURCE
#include "check.h"
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST 1000

static volatile int ran;

static void *run(void *unused) {
  ran = 1;
  return unused;
}

// How many calls go by until another thread has run.
#define CHECK_TURNS(call)                                                                          \
  do {                                                                                             \
    pthread_t thread;                                                                              \
    int calls = ran = 0;                                                                           \
    CHECK(pthread_create(&thread, NULL, run, NULL) == 0);                                          \
    while (!ran && calls < MOST) {                                                                 \
      CHECK((call) == 1);                                                                          \
      calls++;                                                                                     \
    }                                                                                              \
    CHECK(calls < MOST);                                                                           \
    CHECK(pthread_join(thread, NULL) == 0);                                                        \
  } while (0)

int main(void) {
  int pair[2], epoll = epoll_create1(0);
  char byte = 'x';
  struct epoll_event event = {.events = EPOLLIN};
  struct pollfd one = {.events = POLLIN};
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && write(pair[0], &byte, 1) == 1);
  one.fd = pair[1];
  CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, pair[1], &event) == 0);
  CHECK_TURNS(recv(pair[1], &byte, 1, MSG_PEEK));
  CHECK_TURNS(recv(pair[1], &byte, 1, MSG_PEEK | MSG_DONTWAIT));
  CHECK_TURNS(read(pair[1], &byte, 1) == 1 && write(pair[0], &byte, 1));
  CHECK_TURNS(poll(&one, 1, -1));
  CHECK_TURNS(poll(&one, 1, 0));
  CHECK_TURNS(epoll_wait(epoll, &event, 1, -1));
  CHECK_TURNS(epoll_wait(epoll, &event, 1, 0));
  printf("others have turns\n");
  return 0;
}
