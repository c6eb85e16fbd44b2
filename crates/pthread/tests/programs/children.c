// The threads of a fork's child are the kernel's: they have all that these have.

#define _GNU_SOURCE
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4
#define ROUNDS 2000
#define FORKS 10

static pthread_mutex_t mutex;
static long sum;

static void *count(void *unused) {
  (void)unused;
  for (int i = 0; i < ROUNDS; i++) {
    CHECK(pthread_mutex_lock(&mutex) == 0);
    sum++;
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    if (i % 8 == 0)
      sched_yield();
  }
  return NULL;
}

static void run(const char *name, pthread_attr_t *attributes) {
  pthread_t threads[THREADS];
  int started = 0, error = 0;
  sum = 0;
  for (; started < THREADS; started++) {
    error = pthread_create(&threads[started], attributes, count, NULL);
    if (error)
      break;
  }
  for (int i = 0; i < started; i++)
    CHECK(pthread_join(threads[i], NULL) == 0);
  printf("%s: error %d, sum %ld\n", name, error, sum);
}

static void *owner_that_dies(void *robust) {
  CHECK(pthread_mutex_lock(robust) == 0);
  return robust;
}

// A mutex that lends priority, and threads of a real-time class where the machine allows those.
static void lending(void) {
  pthread_mutexattr_t kind;
  pthread_attr_t attributes;
  struct sched_param param = {.sched_priority = 1};
  CHECK(pthread_mutexattr_init(&kind) == 0);
  CHECK(pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT) == 0);
  CHECK(pthread_mutex_init(&mutex, &kind) == 0);
  CHECK(pthread_attr_init(&attributes) == 0);
  run("usual", &attributes);
  CHECK(pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED) == 0);
  CHECK(pthread_attr_setschedpolicy(&attributes, SCHED_RR) == 0);
  CHECK(pthread_attr_setschedparam(&attributes, &param) == 0);
  run("real-time", &attributes);
  CHECK(pthread_mutex_destroy(&mutex) == 0);
}

static void robust(void) {
  pthread_mutex_t robust;
  pthread_mutexattr_t kind;
  pthread_t thread;
  CHECK(pthread_mutexattr_init(&kind) == 0);
  CHECK(pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST) == 0);
  CHECK(pthread_mutex_init(&robust, &kind) == 0);
  CHECK(pthread_create(&thread, NULL, owner_that_dies, &robust) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(pthread_mutex_lock(&robust) == EOWNERDEAD);
  CHECK(pthread_mutex_consistent(&robust) == 0 && pthread_mutex_unlock(&robust) == 0);
  printf("a dead owner is told of\n");
}

static void *sleep_long(void *unused) {
  pause();
  return unused;
}

static void cancelled(void) {
  pthread_t thread;
  void *result;
  CHECK(pthread_create(&thread, NULL, sleep_long, NULL) == 0);
  CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0);
  CHECK(result == PTHREAD_CANCELED);
  printf("a thread is cancelled\n");
}

// The mask is that of the thread which forked.
static void mask(void) {
  sigset_t now;
  CHECK(sigprocmask(SIG_SETMASK, NULL, &now) == 0);
  for (int signal = 1; signal < SIGRTMIN; signal++)
    if (sigismember(&now, signal) == 1)
      printf("blocks %d\n", signal);
}

static void *fork_one(void *unused) {
  (void)unused;
  sigset_t blocked;
  int status;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  CHECK(pthread_sigmask(SIG_BLOCK, &blocked, NULL) == 0);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    mask();
    lending();
    robust();
    cancelled();
    exit(4);
  }
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 4);
  return NULL;
}

static pthread_t forker;

// Joined or not, the thread that has forked ends before the last one does.
static void *end_late(void *joins) {
  if (joins)
    CHECK(pthread_join(forker, NULL) == 0);
  usleep(20000);
  printf("a thread of the child has ended\n");
  return joins;
}

static void say_end(void) { printf("the child ends\n"); }

// The child goes on until the last of its threads has ended.
static void *fork_and_return(void *by_exit) {
  int status;
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    pthread_t thread;
    CHECK(atexit(say_end) == 0);
    forker = pthread_self();
    CHECK(pthread_create(&thread, NULL, end_late, by_exit) == 0);
    if (by_exit)
      pthread_exit(NULL);
    return NULL;
  }
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return NULL;
}

static void on_a_thread(void *(*routine)(void *), void *argument) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, routine, argument) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
}

int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  fork_one(NULL);
  for (int i = 0; i < FORKS; i++)
    on_a_thread(fork_one, NULL);
  on_a_thread(fork_and_return, NULL);
  on_a_thread(fork_and_return, &mutex);
  fork_and_return(&mutex);
  return 0;
}
