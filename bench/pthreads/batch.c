// Batch work without an end: what it has done by the time that it is to go, in millions of steps.

#include <signal.h>
#include <stdint.h>
#include <stdio.h>

static volatile sig_atomic_t over;

static void end(int signal) {
  (void)signal;
  over = 1;
}

int main(void) {
  uint64_t state = 1, steps = 0;
  signal(SIGTERM, end);
  while (!over) {
    for (int i = 0; i < 10000; i++) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
    }
    steps += 10000;
  }
  printf("%.3f %d\n", (double)steps / 1e6, (int)(state & 1));
  return 0;
}
