/* What the drivers share beyond suite.h: input, a checksum over bytes, and an end for what must not
 * happen. The libraries are not ours; the drivers give each a job that its users have. */
#ifndef OUTSIDE_H
#define OUTSIDE_H
#include "../programs/suite.h"

/* Log lines that compress about as well as log lines do: common words, numbers, a few stray bytes. */
static inline void write_text(unsigned char *to, size_t bytes) {
  static const char *const words[] = {
      "request", "worker",    "the queue", "quantum", "latency",  "of core", "service", "yields to",
      "tail",    "{\"id\": ", "waits",     "ready",   "and then", "slow",    "\n"};
  enum { WORDS = sizeof words / sizeof *words };
  for (size_t at = 0; at < bytes;) {
    char number[16];
    const char *word = words[suite_below(1 + suite_below(WORDS))];
    switch (suite_below(32)) {
    case 0: to[at++] = (unsigned char)suite_random(); continue;
    case 1:
    case 2:
    case 3: snprintf(number, sizeof number, "%u", (unsigned)suite_below(100000)); word = number;
    }
    while (*word != 0 && at < bytes)
      to[at++] = (unsigned char)*word++;
    if (at < bytes)
      to[at++] = ' ';
  }
}

static inline uint64_t mix_bytes(uint64_t sum, const void *bytes, size_t n) {
  const unsigned char *at = bytes;
  for (; n >= 8; at += 8, n -= 8) {
    uint64_t word;
    memcpy(&word, at, 8);
    sum = suite_mix(sum, word);
  }
  for (; n > 0; at++, n--)
    sum = suite_mix(sum, *at);
  return sum;
}

static inline void expect(int holds, const char *what) {
  if (!holds) {
    fprintf(stderr, "%s\n", what);
    exit(1);
  }
}
#endif
