// The kernel's threads by pthreads: `pthread OP COUNT` prints nanoseconds per operation (README.md).
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(call)                                                                                \
  do {                                                                                             \
    int error = (call);                                                                            \
    if (error != 0) {                                                                              \
      fprintf(stderr, "%s: %s\n", #call, strerror(error));                                         \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec * 1e9 + (double)at.tv_nsec;
}

// Runs `first` and `second` on threads of their own, to their ends.
static void both(void *(*run)(void *), void *first, void *second) {
  pthread_t threads[2];
  CHECK(pthread_create(&threads[0], NULL, run, first));
  CHECK(pthread_create(&threads[1], NULL, run, second));
  CHECK(pthread_join(threads[0], NULL));
  CHECK(pthread_join(threads[1], NULL));
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static long counter;
static long each;
static int turn;
static volatile int last;
static long switches;

static void lock_and_unlock(long count) {
  counter = 0;
  for (long i = 0; i < count; i++) {
    CHECK(pthread_mutex_lock(&mutex));
    counter++;
    CHECK(pthread_mutex_unlock(&mutex));
  }
  if (counter != count)
    exit(1);
}

static void *yielding(void *unused) {
  for (long i = 0; i < each; i++)
    sched_yield();
  return unused;
}

// As `yielding`, and counts how often the other one ran in between.
static void *watching(void *me) {
  for (long i = 0; i < each; i++) {
    if (last != *(int *)me)
      switches++;
    last = *(int *)me;
    sched_yield();
  }
  return NULL;
}

static void yield_in_turns(long count) {
  each = count / 2;
  both(yielding, NULL, NULL);
}

static void check_turns(long count) {
  int ids[2] = {1, 2};
  each = count / 2;
  switches = 0;
  both(watching, &ids[0], &ids[1]);
  if (switches < count * 9 / 10) {
    fprintf(stderr, "only %ld of %ld yields switched\n", switches, count);
    exit(1);
  }
}

static void *player(void *me) {
  CHECK(pthread_mutex_lock(&mutex));
  for (long i = 0; i < each; i++) {
    while (turn != *(int *)me)
      CHECK(pthread_cond_wait(&cond, &mutex));
    turn = !turn;
    CHECK(pthread_cond_signal(&cond));
  }
  CHECK(pthread_mutex_unlock(&mutex));
  return NULL;
}

static void hand_over(long count) {
  int ids[2] = {0, 1};
  each = count / 2;
  both(player, &ids[0], &ids[1]);
}

static void *child(void *argument) { return argument; }

static void spawn_and_join(long count) {
  for (long i = 0; i < count; i++) {
    pthread_t thread;
    void *result;
    CHECK(pthread_create(&thread, NULL, child, (void *)i));
    CHECK(pthread_join(thread, &result));
    if (result != (void *)i)
      exit(1);
  }
}

static const char *op;
static long count;

// On a thread that was created: glibc's locks are cheaper in a process that has only one.
static void *measure(void *unused) {
  void (*run)(long) = NULL;
  if (!strcmp(op, "mutex"))
    run = lock_and_unlock;
  if (!strcmp(op, "yield"))
    run = yield_in_turns;
  if (!strcmp(op, "condvar"))
    run = hand_over;
  if (!strcmp(op, "spawn_join"))
    run = spawn_and_join;
  if (run == NULL) {
    fprintf(stderr, "there is no operation %s\n", op);
    exit(2);
  }
  if (run == yield_in_turns)
    check_turns(2000);
  run(count / 10);
  double start = now();
  run(count);
  printf("%.3f\n", (now() - start) / (double)count);
  return unused;
}

int main(int argc, char **argv) {
  if (argc != 3 || (count = atol(argv[2])) < 20) {
    fprintf(stderr, "usage: pthread mutex|yield|condvar|spawn_join COUNT (20 or more)\n");
    return 2;
  }
  op = argv[1];
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, measure, NULL));
  CHECK(pthread_join(thread, NULL));
  return 0;
}
