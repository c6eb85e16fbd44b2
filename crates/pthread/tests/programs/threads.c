// Threads come and go; keys, barriers, semaphores, conditions, C11's threads.

#define _GNU_SOURCE
#include "check.h"
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static sem_t s;
static pthread_barrier_t b;
static int turn;
static long sum;
static pthread_key_t k;
static int destroyed;
static __thread int tl = 7;
static void destroy(void *argument) {
  __atomic_fetch_add(&destroyed, (int)(long)argument, __ATOMIC_SEQ_CST);
}
static void clean(void *argument) { __atomic_fetch_add((int *)argument, 1, __ATOMIC_SEQ_CST); }
static int cleaned;
static void *add(void *argument) {
  CHECK(tl == 7);
  tl = (int)(long)argument;
  pthread_setspecific(k, (void *)1);
  for (int i = 0; i < 1000; i++) {
    pthread_mutex_lock(&m);
    sum++;
    pthread_mutex_unlock(&m);
  }
  int r = pthread_barrier_wait(&b);
  (void)r;
  sem_post(&s);
  return argument;
}
static void *leave(void *argument) {
  pthread_cleanup_push(clean, &cleaned);
  pthread_setspecific(k, (void *)1);
  if (argument)
    pthread_exit(argument);
  pthread_cleanup_pop(0);
  return 0;
}
static void *ping(void *argument) {
  int me = (int)(long)argument;
  for (int i = 0; i < 1000; i++) {
    pthread_mutex_lock(&m);
    while (turn != me)
      pthread_cond_wait(&c, &m);
    turn = !me;
    pthread_cond_broadcast(&c);
    pthread_mutex_unlock(&m);
  }
  return 0;
}
static int c11(void *argument) {
  struct timespec t = {0, 1000000};
  thrd_sleep(&t, 0);
  thrd_exit((int)(long)argument + 1);
}
int main(void) {
  pthread_t t[8];
  pthread_key_create(&k, destroy);
  sem_init(&s, 0, 0);
  pthread_barrier_init(&b, 0, 8);
  for (long i = 0; i < 8; i++)
    pthread_create(&t[i], 0, add, (void *)i);
  for (int i = 0; i < 8; i++)
    sem_wait(&s);
  for (long i = 0; i < 8; i++) {
    void *r;
    pthread_join(t[i], &r);
    CHECK(!(r != (void *)i));
  }
  printf("sum %ld destroyed %d\n", sum, destroyed);
  for (long i = 0; i < 8; i++)
    pthread_create(&t[i], 0, leave, (void *)(i + 1));
  for (long i = 0; i < 8; i++) {
    void *r;
    pthread_join(t[i], &r);
    CHECK(!(r != (void *)(i + 1)));
  }
  printf("cleaned %d destroyed %d\n", cleaned, destroyed);
  for (long i = 0; i < 2; i++)
    pthread_create(&t[i], 0, ping, (void *)i);
  for (long i = 0; i < 2; i++)
    pthread_join(t[i], 0);
  thrd_t h;
  int r;
  thrd_create(&h, c11, (void *)41);
  thrd_join(h, &r);
  printf("c11 %d\n", r);
  struct timespec ts;
  clock_gettime(CLOCK_REALTIME, &ts);
  ts.tv_nsec += 20000000;
  if (ts.tv_nsec >= 1000000000)
    ts.tv_nsec -= 1000000000, ts.tv_sec++;
  pthread_mutex_lock(&m);
  printf("timedwait %d\n", pthread_cond_timedwait(&c, &m, &ts) == ETIMEDOUT);
  pthread_mutex_unlock(&m);
  printf("sem %d\n", sem_timedwait(&s, &ts) == -1 && errno == ETIMEDOUT);
  pthread_mutexattr_t a;
  pthread_mutexattr_init(&a);
  pthread_mutexattr_settype(&a, PTHREAD_MUTEX_ERRORCHECK);
  pthread_mutex_t e;
  pthread_mutex_init(&e, &a);
  pthread_mutex_lock(&e);
  printf("deadlk %d\n", pthread_mutex_lock(&e) == EDEADLK);
  for (int i = 0; i < 20000; i++) {
    pthread_create(&t[0], 0, leave, 0);
    pthread_join(t[0], 0);
  }
  printf("storm self %d join self %d\n", pthread_equal(pthread_self(), pthread_self()),
         pthread_join(pthread_self(), 0) == EDEADLK);
  return 3;
}
