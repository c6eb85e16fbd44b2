// Threads that wait for each other in loops, without a call.

#define _GNU_SOURCE
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
static atomic_int work[8];
static int n = 4;
static pthread_mutex_t m[8];
static void *io(void *argument) {
  int i = (int)(long)argument;
  for (;;) {
    for (int j = 0; j < 1000000; j++)
      if (work[i])
        break;
    if (!work[i]) {
      pthread_mutex_lock(&m[i]);
      pthread_mutex_unlock(&m[i]);
      continue;
    }
    if (work[i] == 2)
      return 0;
    work[i] = 0;
  }
}
int main(void) {
  pthread_t t[8];
  for (int i = 0; i < 8; i++)
    pthread_mutex_init(&m[i], 0);
  for (long i = 0; i < n; i++)
    pthread_create(&t[i], 0, io, (void *)i);
  for (int r = 0; r < 50; r++) {
    for (int i = 0; i < n; i++)
      work[i] = 1;
    for (;;) {
      int p = 0;
      for (int i = 0; i < n; i++)
        p += work[i];
      if (!p)
        break;
    }
  }
  printf("all rounds\n");
  for (int i = 0; i < n; i++)
    work[i] = 2;
  for (int i = 0; i < n; i++)
    pthread_join(t[i], 0);
  return 0;
}
