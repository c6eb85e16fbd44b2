// Loops that are charged as a whole and leave before their end give back what was charged too much: the
// budget falls by the same work for each iteration more, whatever counts, and however far the end is.
#include "curtail_safepoint.h"
#include <limits.h>
#include <stdio.h>

static unsigned work[1 << 16];

// Twenty units and more.
#define STEP(v) \
  s = s * 31 + ((v) ^ s >> 7), s ^= s << 3, s += (v) >> 2, s ^= s >> 5, s *= 3, s ^= (s << 9) + (v) * 7, \
  s -= (v) << 4, s ^= s >> 11, s += (v)
// A loop; `AT`: the iteration that `i` is in.
#define LOOP(NAME, TYPE, FROM, GOES, BY, AT)                                                           \
  __attribute__((noinline)) static unsigned NAME(const unsigned *p, TYPE from, TYPE n, long leave) {   \
    unsigned s = 1;                                                                                    \
    for (TYPE i = FROM; GOES; BY) {                                                                    \
      STEP(p[(AT) & 0xffff]);                                                                          \
      if ((long)(AT) == leave)                                                                         \
        return s;                                                                                      \
      s ^= s >> 13;                                                                                    \
    }                                                                                                  \
    return s ^ 1;                                                                                      \
  }
LOOP(ups, int, from, i < n, i++, i - from)
LOOP(longs, long, from, i < n, i++, i - from)
LOOP(forever, long, from, i < LONG_MAX, i++, i - from)
LOOP(downs, long, from, i > n, i--, from - i)
LOOP(threes, unsigned long, from, i < n, i += 3, (i - from) / 3)
LOOP(sixes, unsigned, from, i != n, i += 6, (i - from) / 6)
LOOP(pointers, const unsigned *, from, i != n, i += 3, (i - from) / 3)

static int64_t budget(void) { return curtail_safepoint_self()->budget; }

#define MOST 300
// The call, told to leave in one iteration after the other.
#define CHECK(NAME, CALL)                                                                              \
  do {                                                                                                 \
    int64_t fell[MOST];                                                                                \
    for (long leave = 0; leave < MOST; leave++) {                                                      \
      int64_t had = budget();                                                                          \
      sum += CALL;                                                                                     \
      fell[leave] = had - budget();                                                                    \
    }                                                                                                  \
    int64_t each = fell[1] - fell[0], off = each < 10 || each > 100 || fell[0] > 300;                  \
    for (int leave = 1; leave < MOST; leave++)                                                         \
      off |= fell[leave] - fell[leave - 1] != each;                                                    \
    if (off) {                                                                                         \
      printf("%s: %lld, then %lld each\n", NAME, (long long)fell[0], (long long)each);                 \
      wrong = 1;                                                                                       \
    }                                                                                                  \
  } while (0)

int main(void) {
  unsigned sum = 0;
  int wrong = 0;
  for (int i = 0; i < 1 << 16; i++)
    work[i] = i * 2654435761u;
  struct curtail_safepoint_block *block = curtail_safepoint_self();
  // Somewhere in a quantum that does not end: all of it fits.
  block->budget = INT64_MAX / 4;
  CHECK("ups", ups(work, 5, 1000, leave));
  CHECK("longs", longs(work, -7, 1L << 31, leave));
  CHECK("downs", downs(work, 1000, -1000, leave));
  CHECK("threes", threes(work, 1, 3000, leave));
  CHECK("sixes", sixes(work, UINT_MAX - 20, 6 * 700 - 21, leave));
  CHECK("pointers", pointers(work, work, work + 3 * 1000, leave));
  // What is next to endless fits into no budget, and is cut: exact it is then, too.
  CHECK("forever", forever(work, 3, 0, leave));
  // Nothing fits: each is charged for what it did, and the slow path comes by, which gives more.
  for (long leave = 0; leave < MOST; leave++) {
    block->budget = 0;
    sum += longs(work, 0, 1L << 31, leave);
    if (budget() <= 0) {
      printf("longs: a budget of %lld is left\n", (long long)budget());
      wrong = 1;
    }
  }
  printf("%u\n", sum);
  return wrong;
}
