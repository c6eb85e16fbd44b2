/* Calls of the C library that may be long, in pieces with safepoints between them.
 *
 * The pass (pass/src/longcalls.cpp) has instrumented code come here instead of to the function of the
 * same name where the length says so, or where nobody knows it. Each is that function in all that can
 * be seen. Where nothing is armed, and in critical sections, the library's own is called, once.
 *
 * Runs on the thread that owns the block, as part of the code that calls; no vector register of the
 * caller's is live in a call. Another thread may take the fiber on at a safepoint, so nothing of the
 * block, its address included, is kept across one: whoever touches it is never inlined (APART).
 *
 * In mode CLOCK, pieces are as long as the time left and the speed of the last one allow, and what is
 * charged for them is the time they took, at the pace at which it was granted. The measuring of the
 * rate leaves this time out: it says nothing of the program's own code.
 */
#define _GNU_SOURCE
#include "curtail_safepoint.h"
#include "state.h"
#include <stddef.h>
#include <string.h>

enum {
  /* So many bytes are not worth a look at the clock: charged by their number, 16 a unit. */
  HEAD = 8192,
  HEAD_SHIFT = 4,
  /* Searches begin with less, which nobody charges for, and double it. */
  FIRST_PIECE = 256,
  PIECE = 8192,
  LEAST_PIECE = 512,
  MOST_PIECE = 65536,
  /* How long a piece is to take, about: a look at the clock, and what goes with it, takes 100. */
  LEAST_CYCLES = 800,
  MOST_CYCLES = 2000,
  /* This close to the deadline the slow path is asked; the aim lies between. */
  NEAR_CYCLES = CURTAIL_SLACK_CYCLES - 32,
  AIM_CYCLES = CURTAIL_SLACK_CYCLES / 2,
  /* A longer needle is the library's business: each piece looks at so many bytes again. */
  LONGEST_NEEDLE = 256,
};

#ifdef __clang__
#define APART static __attribute__((noinline))
#else
#define APART static __attribute__((noipa))
#endif

/* Whoever calls none of these need not have them. */
#pragma weak memchr
#pragma weak strchr
#pragma weak strlen
#pragma weak strstr

struct pace {
  size_t head;    /* bytes to go before the clock is read */
  size_t piece;   /* as long as the next one may be */
  uint64_t since; /* TSC up to which is charged */
  size_t last;    /* the last piece, and the cycles that it took */
  uint64_t took;
};

/* Somebody waits for safepoints. */
static inline int armed(void) {
  uint32_t mode = curtail_safepoint.mode;
  return mode == CURTAIL_CLOCK || mode == CURTAIL_FLAG;
}

/* Not below zero, where it has not been: loops that are charged as a whole rely on that. Returns by
 * how much. */
static inline int64_t charge(struct curtail_safepoint_block *b, uint64_t work) {
  int64_t had = b->budget;
  int64_t part = had <= 0 ? 0 : work < (uint64_t)had ? (int64_t)work : had;
  b->budget = had - part;
  return part;
}

APART void curtail_pace_charge(size_t length) {
  if (curtail_safepoint.mode == CURTAIL_CLOCK)
    charge(&curtail_safepoint, length >> HEAD_SHIFT);
}

/* Whether pieces make sense here. */
APART int curtail_pace_begin(struct pace *p, size_t head) {
  struct curtail_safepoint_block *b = &curtail_safepoint;
  if (b->yield == NULL || b->depth != 0)
    return 0;
  p->head = head;
  p->piece = head != 0 ? FIRST_PIECE : PIECE;
  p->last = 0;
  p->since = head == 0 ? tsc() : 0;
  return 1;
}

/* How long the next piece is. */
APART size_t curtail_pace_next(const struct pace *p, size_t left) {
  struct curtail_safepoint_block *b = &curtail_safepoint;
  size_t piece = p->piece;
  if (p->last != 0 && b->mode == CURTAIL_CLOCK) {
    uint64_t time = b->deadline > p->since ? b->deadline - p->since : 0;
    time = time > AIM_CYCLES ? time - AIM_CYCLES : 0;
    if (time < 4 * MOST_CYCLES && time * p->last < piece * p->took) {
      size_t fits = time * p->last / p->took;
      piece = fits < LEAST_PIECE ? LEAST_PIECE : fits;
    }
  }
  return piece < left ? piece : left;
}

/* After it no block is known any more: it may be another thread's. */
APART void curtail_long_yield(void) { curtail_safepoint_slow_sse(); }

/* A piece that was not worth a look at the clock. Is a look at the time due? */
static inline int pass_head(struct curtail_safepoint_block *b, struct pace *p, size_t done) {
  charge(b, done >> HEAD_SHIFT);
  p->head -= done < p->head ? done : p->head;
  p->since = p->head == 0 ? tsc() : 0;
  return b->budget <= 0;
}

static inline int pass_piece(struct curtail_safepoint_block *b, struct pace *p, size_t done) {
  uint64_t now = tsc(), took = now - p->since;
  b->granted -= charge(b, took * b->pace >> 10);
  b->sample_start += b->sample_start != 0 ? took : 0;
  p->since = now;
  p->last = done;
  p->took = took | 1;
  if (took < LEAST_CYCLES && p->piece < MOST_PIECE)
    p->piece *= 2;
  if (took > MOST_CYCLES && p->piece > LEAST_PIECE)
    p->piece /= 2;
  return b->deadline <= now || b->deadline - now <= NEAR_CYCLES;
}

/* Behind each piece: the safepoint. */
APART void curtail_pace_passed(struct pace *p, size_t done) {
  struct curtail_safepoint_block *b = &curtail_safepoint;
  int due = __atomic_load_n(&b->poll, __ATOMIC_RELAXED) != 0;
  if (p->piece < PIECE && p->last == 0)
    p->piece *= 2;
  if (b->mode == CURTAIL_CLOCK)
    due |= p->head != 0 ? pass_head(b, p, done) : pass_piece(b, p, done);
  if (!due)
    return;
  curtail_long_yield();
  p->since = tsc();
}

APART void *paced_memcpy(char *to, const char *from, size_t n) {
  struct pace p;
  if (n <= HEAD || !curtail_pace_begin(&p, 0)) {
    curtail_pace_charge(n);
    return memcpy(to, from, n);
  }
  for (size_t at = 0, part; at < n; at += part) {
    part = curtail_pace_next(&p, n - at);
    memcpy(to + at, from + at, part);
    curtail_pace_passed(&p, part);
  }
  return to;
}

void *curtail_memcpy(void *to, const void *from, size_t n) {
  return armed() ? paced_memcpy(to, from, n) : memcpy(to, from, n);
}

/* From the end towards which the bytes move, so that none is overwritten before it was read. */
APART void *paced_memmove(char *to, const char *from, size_t n) {
  struct pace p;
  if (n <= HEAD || !curtail_pace_begin(&p, 0)) {
    curtail_pace_charge(n);
    return memmove(to, from, n);
  }
  int upwards = (uintptr_t)to - (uintptr_t)from < n;
  for (size_t at = 0, part; at < n; at += part) {
    part = curtail_pace_next(&p, n - at);
    size_t start = upwards ? n - at - part : at;
    memmove(to + start, from + start, part);
    curtail_pace_passed(&p, part);
  }
  return to;
}

void *curtail_memmove(void *to, const void *from, size_t n) {
  return armed() ? paced_memmove(to, from, n) : memmove(to, from, n);
}

APART void *paced_memset(char *to, int byte, size_t n) {
  struct pace p;
  if (n <= HEAD || !curtail_pace_begin(&p, 0)) {
    curtail_pace_charge(n);
    return memset(to, byte, n);
  }
  for (size_t at = 0, part; at < n; at += part) {
    part = curtail_pace_next(&p, n - at);
    memset(to + at, byte, part);
    curtail_pace_passed(&p, part);
  }
  return to;
}

void *curtail_memset(void *to, int byte, size_t n) {
  return armed() ? paced_memset(to, byte, n) : memset(to, byte, n);
}

APART int paced_memcmp(const char *a, const char *b, size_t n) {
  struct pace p;
  if (!curtail_pace_begin(&p, HEAD))
    return memcmp(a, b, n);
  for (size_t at = 0, part; at < n; at += part) {
    part = curtail_pace_next(&p, n - at);
    int differ = memcmp(a + at, b + at, part);
    /* Where in the piece, nobody says. */
    curtail_pace_passed(&p, differ != 0 ? 0 : part);
    if (differ != 0)
      return differ;
  }
  return 0;
}

int curtail_memcmp(const void *a, const void *b, size_t n) {
  if (!armed())
    return memcmp(a, b, n);
  size_t at = n < FIRST_PIECE ? n : FIRST_PIECE;
  int differ = memcmp(a, b, at);
  return differ != 0 || n == at ? differ
                                : paced_memcmp((const char *)a + at, (const char *)b + at, n - at);
}

/* It reads no further than it has to, so `n` may be more than there is. */
APART const char *paced_memchr(const char *in, int byte, size_t n) {
  struct pace p;
  if (!curtail_pace_begin(&p, HEAD))
    return memchr(in, byte, n);
  for (size_t at = 0, part; at < n; at += part) {
    part = curtail_pace_next(&p, n - at);
    const char *found = memchr(in + at, byte, part);
    curtail_pace_passed(&p, found != NULL ? (size_t)(found - (in + at)) : part);
    if (found != NULL)
      return found;
  }
  return NULL;
}

void *curtail_memchr(const void *in, int byte, size_t n) {
  if (!armed())
    return memchr(in, byte, n);
  size_t at = n < FIRST_PIECE ? n : FIRST_PIECE;
  void *found = memchr(in, byte, at);
  return found != NULL || n == at ? found
                                  : (void *)paced_memchr((const char *)in + at, byte, n - at);
}

size_t curtail_strlen(const char *s) {
  if (!armed() || memchr == NULL)
    return strlen(s);
  const char *end = curtail_memchr(s, 0, SIZE_MAX);
  return (size_t)(end - s);
}

APART const char *paced_strchr(const char *s, int byte) {
  struct pace p;
  if (!curtail_pace_begin(&p, HEAD))
    return strchr(s, byte);
  for (;;) {
    size_t part = curtail_pace_next(&p, SIZE_MAX);
    const char *end = memchr(s, 0, part);
    size_t n = end != NULL ? (size_t)(end - s) + 1 : part;
    const char *found = memchr(s, byte, n);
    curtail_pace_passed(&p, n);
    if (found != NULL || end != NULL)
      return found;
    s += part;
  }
}

char *curtail_strchr(const char *s, int byte) {
  return armed() && memchr != NULL ? (char *)paced_strchr(s, byte) : strchr(s, byte);
}

/* Each piece is searched for what begins in it, in a copy that ends there: copying is cheap beside
 * searching, and memmem, which needs no end, is ten times as slow as strstr. `m` is not zero. */
APART const char *paced_strstr(const char *in, const char *needle, size_t m) {
  struct pace p;
  char copy[PIECE / 2 + LONGEST_NEEDLE];
  if (!curtail_pace_begin(&p, HEAD / 4))
    return strstr(in, needle);
  for (;;) {
    size_t part = curtail_pace_next(&p, PIECE / 2);
    const char *end = memchr(in, 0, part + m - 1);
    size_t n = end != NULL ? (size_t)(end - in) : part + m - 1;
    memcpy(copy, in, n);
    copy[n] = 0;
    const char *found = strstr(copy, needle);
    size_t at = found != NULL ? (size_t)(found - copy) : part;
    curtail_pace_passed(&p, at);
    if (found != NULL || end != NULL)
      return found != NULL ? in + at : NULL;
    in += part;
  }
}

char *curtail_strstr(const char *in, const char *needle) {
  if (!armed() || memchr == NULL)
    return strstr(in, needle);
  const char *end = memchr(needle, 0, LONGEST_NEEDLE + 1);
  if (end == NULL || end == needle)
    return strstr(in, needle);
  return (char *)paced_strstr(in, needle, (size_t)(end - needle));
}
