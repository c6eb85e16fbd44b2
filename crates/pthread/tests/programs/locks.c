// Locks of each kind, and what each says where it can't be had.

#define _GNU_SOURCE
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <string.h>
#include <time.h>

enum { THREADS = 6, ROUNDS = 500 };

static long counter;
static pthread_mutex_t mutex;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int onces;

static void run_once(void) {
  sched_yield();
  onces++;
}

static void *by_mutex(void *unused) {
  (void)unused;
  pthread_once(&once, run_once);
  for (int i = 0; i < ROUNDS; i++) {
    CHECK(pthread_mutex_lock(&mutex) == 0);
    long seen = counter;
    if (i % 50 == 0)
      sched_yield();
    counter = seen + 1;
    CHECK(pthread_mutex_unlock(&mutex) == 0);
  }
  return NULL;
}

static void *by_rwlock(void *argument) {
  for (int i = 0; i < ROUNDS; i++) {
    if (argument) {
      CHECK(pthread_rwlock_rdlock(&rwlock) == 0);
    } else {
      CHECK(pthread_rwlock_wrlock(&rwlock) == 0);
      counter++;
    }
    if (i % 50 == 0)
      sched_yield();
    CHECK(pthread_rwlock_unlock(&rwlock) == 0);
  }
  return NULL;
}

static void *by_spin(void *unused) {
  (void)unused;
  for (int i = 0; i < ROUNDS; i++) {
    CHECK(pthread_spin_lock(&spin) == 0);
    counter++;
    CHECK(pthread_spin_unlock(&spin) == 0);
  }
  return NULL;
}

static void *by_recursive(void *unused) {
  (void)unused;
  for (int i = 0; i < ROUNDS; i++) {
    CHECK(pthread_mutex_lock(&recursive) == 0 && pthread_mutex_lock(&recursive) == 0);
    counter++;
    sched_yield();
    CHECK(pthread_mutex_unlock(&recursive) == 0 && pthread_mutex_unlock(&recursive) == 0);
  }
  return NULL;
}

static void count_by(const char *name, void *(*routine)(void *)) {
  pthread_t threads[THREADS];
  counter = 0;
  for (long i = 0; i < THREADS; i++)
    CHECK(pthread_create(&threads[i], NULL, routine, (void *)(i % 2)) == 0);
  for (int i = 0; i < THREADS; i++)
    CHECK(pthread_join(threads[i], NULL) == 0);
  printf("%s %ld\n", name, counter);
}

static void *try_held(void *argument) {
  struct timespec until;
  CHECK(pthread_mutex_trylock(argument) == EBUSY);
  clock_gettime(CLOCK_REALTIME, &until);
  CHECK(pthread_mutex_timedlock(argument, &until) == ETIMEDOUT);
  until.tv_nsec = 1000000000;
  CHECK(pthread_mutex_timedlock(argument, &until) == EINVAL);
  CHECK(pthread_rwlock_tryrdlock(&rwlock) == EBUSY && pthread_rwlock_trywrlock(&rwlock) == EBUSY);
  return NULL;
}

int main(void) {
  pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
  const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK,
                       PTHREAD_MUTEX_ADAPTIVE_NP};
  for (int i = 0; i < 4; i++) {
    pthread_mutexattr_t attributes;
    CHECK(pthread_mutexattr_init(&attributes) == 0);
    CHECK(pthread_mutexattr_settype(&attributes, types[i]) == 0);
    CHECK(pthread_mutex_init(&mutex, &attributes) == 0);
    count_by("mutex", by_mutex);
    CHECK(pthread_mutex_lock(&mutex) == 0);
    CHECK(pthread_rwlock_wrlock(&rwlock) == 0);
    pthread_t other;
    CHECK(pthread_create(&other, NULL, try_held, &mutex) == 0 && pthread_join(other, NULL) == 0);
    CHECK(pthread_rwlock_wrlock(&rwlock) == EDEADLK && pthread_rwlock_rdlock(&rwlock) == EDEADLK);
    CHECK(pthread_rwlock_unlock(&rwlock) == 0);
    if (types[i] == PTHREAD_MUTEX_ERRORCHECK) {
      CHECK(pthread_mutex_lock(&mutex) == EDEADLK);
    }
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    if (types[i] == PTHREAD_MUTEX_ERRORCHECK) {
      CHECK(pthread_mutex_unlock(&mutex) == EPERM);
    }
    CHECK(pthread_mutex_destroy(&mutex) == 0);
  }
  count_by("rwlock", by_rwlock);
  count_by("spin", by_spin);
  count_by("recursive", by_recursive);
  printf("once %d\n", onces);
  return 0;
}
