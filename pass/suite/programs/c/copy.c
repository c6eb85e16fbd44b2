/* Copies: memcpy, memmove and memset of 0 bytes to 256 KiB through buffers, rings and gap buffers:
 * most of the time passes inside the C library. */
#include "../suite.h"

enum { BYTES = 1 << 19 };
static unsigned char from[BYTES], to[BYTES];

static uint64_t frames(size_t most) {
  size_t out = 0, at = 0, count = 0;
  while (at + most < BYTES && out + most + 4 < BYTES) {
    uint32_t n = (uint32_t)suite_below(most + 1);
    memcpy(to + out, &n, 4);
    memcpy(to + out + 4, from + at, n);
    out += n + 4;
    at += n + 1;
    count++;
  }
  uint64_t sum = count;
  for (size_t i = 0; i < out;) {
    uint32_t n;
    memcpy(&n, to + i, 4);
    sum = suite_mix(sum, n);
    i += n + 4;
  }
  return sum;
}

static uint64_t ring(size_t most) {
  static unsigned char buffer[1 << 15];
  size_t head = 0, size = sizeof buffer;
  uint64_t sum = 0;
  for (int i = 0; i < 400; i++) {
    size_t n = suite_below(most < size ? most + 1 : size),
           first = n < size - head ? n : size - head;
    memcpy(buffer + head, from + i, first);
    memcpy(buffer, from + i + first, n - first);
    head = (head + n) % size;
    sum = suite_mix(sum, buffer[head]);
  }
  return sum;
}

static uint64_t gap(size_t most) {
  size_t used = 1000;
  uint64_t sum = 0;
  for (int i = 0; i < 100; i++) {
    size_t at = suite_below(used), n = suite_below(most / 4 + 1);
    if (used + n >= BYTES)
      break;
    memmove(to + at + n, to + at, used - at);
    memset(to + at, i, n);
    used += n;
    sum = suite_mix(sum, to[used / 2]);
  }
  return sum;
}

int main(int argc, char **argv) {
  static const size_t sizes[] = {8, 60, 500, 4000, 30000, 1 << 18};
  uint64_t rounds = suite_rounds(argc, argv, 560), sum = 0;
  for (size_t i = 0; i < BYTES; i++)
    from[i] = (unsigned char)suite_random();
  for (uint64_t r = 0; r < rounds; r++)
    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
      sum = suite_mix(sum, frames(sizes[s]));
      sum = suite_mix(sum, ring(sizes[s]));
      sum = suite_mix(sum, gap(sizes[s]));
      from[suite_below(BYTES)]++;
    }
  return suite_end(sum);
}
