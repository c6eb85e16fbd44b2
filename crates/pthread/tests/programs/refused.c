// What needs a thread of the kernel's for each of the program's.

#define _GNU_SOURCE
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void *nothing(void *argument) { return argument; }

static void *sleep_long(void *unused) {
  (void)unused;
  usleep(50000);
  return NULL;
}

int main(void) {
  pthread_attr_t attributes;
  struct sched_param param = {.sched_priority = 10};
  pthread_t thread;
  CHECK(pthread_attr_init(&attributes) == 0);
  CHECK(pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED) == 0);
  CHECK(pthread_attr_setschedpolicy(&attributes, SCHED_FIFO) == 0);
  CHECK(pthread_attr_setschedparam(&attributes, &param) == 0);
  CHECK(pthread_create(&thread, &attributes, nothing, NULL) == EPERM);
  CHECK(pthread_setschedparam(pthread_self(), SCHED_RR, &param) == EPERM);
  param.sched_priority = 0;
  CHECK(pthread_setschedparam(pthread_self(), SCHED_OTHER, &param) == 0);
  CHECK(pthread_setschedprio(pthread_self(), 5) == EINVAL);

  pthread_mutexattr_t mutex;
  CHECK(pthread_mutexattr_init(&mutex) == 0);
  CHECK(pthread_mutexattr_setprotocol(&mutex, PTHREAD_PRIO_INHERIT) == ENOTSUP);
  CHECK(pthread_mutexattr_setprotocol(&mutex, PTHREAD_PRIO_PROTECT) == ENOTSUP);
  CHECK(pthread_mutexattr_setprotocol(&mutex, PTHREAD_PRIO_NONE) == 0);
  CHECK(pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_ROBUST) == EINVAL);
  CHECK(pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_STALLED) == 0);

  clockid_t clock;
  CHECK(pthread_getcpuclockid(pthread_self(), &clock) == ENOENT);

  CHECK(pthread_create(&thread, NULL, sleep_long, NULL) == 0);
  CHECK(pthread_cancel(thread) == ENOSYS);
  int old;
  CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old) == 0 && old == PTHREAD_CANCEL_ENABLE);
  CHECK(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old) == 0);
  pthread_testcancel();
  CHECK(pthread_setname_np(thread, "a name") == 0);
  char name[16];
  CHECK(pthread_getname_np(thread, name, sizeof name) == 0 && strcmp(name, "a name") == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == ESRCH);
  CHECK(pthread_kill(thread, 0) == ESRCH);
  printf("all refused\n");
  return 0;
}
