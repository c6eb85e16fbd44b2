/* What the suite's C and C++ programs share: how much to do, random numbers, the checksum. Every
 * program takes a scale as its only argument (default 1: about a second), does that much of its
 * work, and prints a checksum that depends on all of it and on nothing else. */
#ifndef SUITE_H
#define SUITE_H
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How many rounds: `base` times the scale, at least one. */
static inline uint64_t suite_rounds(int argc, char **argv, uint64_t base) {
  char *end = NULL;
  double scale = argc > 1 ? strtod(argv[1], &end) : 1.0;
  if (argc > 2 || (end && (*end != 0 || end == argv[1])) || !(scale >= 0.0 && scale <= 1e6)) {
    fprintf(stderr, "usage: %s [SCALE]\n", argv[0]);
    exit(2);
  }
  double rounds = (double)base * scale;
  return rounds < 1.0 ? 1 : (uint64_t)rounds;
}

/* xorshift64*: the same numbers everywhere. */
static uint64_t suite_state = 88172645463325252u;

static inline uint64_t suite_random(void) {
  uint64_t x = suite_state;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  suite_state = x;
  return x * 0x2545F4914F6CDD1Du;
}

/* Below `n`, which is not zero. */
static inline uint64_t suite_below(uint64_t n) { return (suite_random() >> 32) % n; }

/* From [0, 1). */
static inline double suite_unit(void) { return (double)(suite_random() >> 11) * 0x1p-53; }

static inline uint64_t suite_mix(uint64_t sum, uint64_t value) {
  sum = (sum ^ value) * 0x9E3779B97F4A7C15u;
  return sum ^ sum >> 29;
}

static inline uint64_t suite_mix_double(uint64_t sum, double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return suite_mix(sum, bits);
}

static inline void *suite_alloc(size_t bytes) {
  void *memory = malloc(bytes);
  if (memory == NULL) {
    fprintf(stderr, "out of memory\n");
    exit(1);
  }
  return memory;
}

static inline int suite_end(uint64_t sum) {
  printf("%016llx\n", (unsigned long long)sum);
  return 0;
}
#endif
