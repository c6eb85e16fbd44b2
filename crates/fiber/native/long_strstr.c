/* strstr in pieces. The library's goes on to the first match or to the end of the text, and nobody
 * knows where either is: it could be cut only by handing it copies that end where a piece ends. So
 * this one searches itself, and can stop anywhere.
 *
 * It looks for the needle's first three bytes, 64 positions at a time, and compares where they are. No
 * byte is read from a page that the text, or the needle, has none in. Comparisons have a limit in
 * proportion to the text: needles that match nearly everywhere are left to the library, whose time is
 * linear, in copies of the pieces. So are all where the processor has no AVX2.
 *
 * Who runs it is as in long_calls.c.
 */
#define _GNU_SOURCE
#include "long_calls.h"
#include <string.h>

/* Whoever does not call it need not have them. */
#pragma weak memchr
#pragma weak strchr
#pragma weak strstr

typedef char vector __attribute__((vector_size(32)));
typedef char anywhere __attribute__((vector_size(32), aligned(1), may_alias));

/* The vector registers are free in a call. */
#define VECTORS __attribute__((target("avx2")))

enum {
  BLOCK = 64,
  FIRST_BLOCKS = CURTAIL_FIRST_PIECE / BLOCK,
  PAGE = 4096,
  /* So often may 8 bytes be compared in the first block, and in others, on average. */
  FIRST_PATIENCE = 32,
  PATIENCE = 12,
  COPIED = 4096,
  /* A longer needle is the library's business: each copy has so many bytes again. */
  LONGEST_NEEDLE = 256,
};

/* How a stretch of the search ended. */
enum state { MORE, FOUND, ENDED, HARD };

struct search {
  const char *text;
  const char *needle; /* of two bytes at least */
  size_t reach;       /* from its first byte to the last of those that are looked for */
  const char *block;  /* where to go on, aligned: where that last one may be */
  int64_t patience;   /* comparisons that this stretch may have yet */
  const char *at;     /* no match begins before; FOUND: it begins here */
};

static inline uint64_t word(const char *p) {
  uint64_t w;
  __builtin_memcpy(&w, p, sizeof w);
  return w;
}

static inline int near_page_end(const char *p) {
  return ((uintptr_t)p & (PAGE - 1)) > PAGE - sizeof(uint64_t);
}

static enum state compare_bytes(const char *text, const char *needle, int64_t *patience) {
  for (; *needle != 0; text++, needle++) {
    if (*text != *needle)
      return MORE;
    if (--*patience < 0)
      return HARD;
  }
  return FOUND;
}

/* Whether the needle is there. */
static inline enum state compare(const char *text, const char *needle, int64_t *patience) {
  const uint64_t ones = UINT64_MAX / 255;
  for (;; text += sizeof ones, needle += sizeof ones) {
    if (--*patience < 0)
      return HARD;
    if (near_page_end(text) || near_page_end(needle))
      return compare_bytes(text, needle, patience);
    uint64_t n = word(needle), differ = n ^ word(text);
    /* Right up to the first zero byte. */
    uint64_t zero = (n - ones) & ~n & ones << 7;
    if (zero != 0)
      return (differ & ((zero & -zero) - 1) >> 7) == 0 ? FOUND : MORE;
    if (differ != 0)
      return MORE;
  }
}

/* A bit for each byte of a block. */
VECTORS static inline uint64_t bits(vector low, vector high) {
  uint64_t above = (uint32_t)__builtin_ia32_pmovmskb256(high);
  return above << 32 | (uint32_t)__builtin_ia32_pmovmskb256(low);
}

/* Candidates: a bit where the last of their bytes looked for is in the block. */
static inline enum state candidates(struct search *s, const char *block, uint64_t lasts,
                                    uint64_t ends) {
  /* Those before the text ends. */
  lasts &= (ends & -ends) - 1;
  for (; lasts != 0; lasts &= lasts - 1) {
    s->at = block + __builtin_ctzll(lasts) - s->reach;
    enum state state = s->at < s->text ? MORE : compare(s->at, s->needle, &s->patience);
    if (state != MORE)
      return state;
  }
  return ends != 0 ? ENDED : MORE;
}

/* The block in which the text begins: nothing before it is read, which might be in another page. */
VECTORS static enum state begin(struct search *s) {
  const char *n = s->needle;
  const vector none = {0}, first = none + n[0], second = none + n[1], last = none + n[s->reach];
  size_t before = (uintptr_t)s->text % BLOCK;
  const char *block = s->text - before;
  const vector *v = (const vector *)block;
  uint64_t found = bits(v[0] == first, v[1] == first) << 1 & bits(v[0] == second, v[1] == second);
  found = found << (s->reach - 1) & bits(v[0] == last, v[1] == last);
  s->block = block + BLOCK;
  return candidates(s, block, found, bits(v[0] == none, v[1] == none) & UINT64_MAX << before);
}

/* Goes on with so many blocks. */
VECTORS static enum state scan(struct search *s, size_t blocks) {
  const char *n = s->needle, *block = s->block, *end = block + blocks * BLOCK;
  const vector none = {0}, first = none + n[0], second = none + n[1], last = none + n[s->reach];
  const size_t reach = s->reach;
  enum state state = MORE;
  s->patience = (int64_t)blocks * PATIENCE;
  for (; block != end; block += BLOCK) {
    vector v0 = ((const vector *)block)[0], v1 = ((const vector *)block)[1];
    __asm__("" : "+x"(v0), "+x"(v1)); /* loaded once */
    const anywhere *u = (const anywhere *)(block - reach);
    const anywhere *w = (const anywhere *)(block - reach + 1);
    vector low = (vector)(u[0] == first) & (vector)(w[0] == second) & (v0 == last);
    vector high = (vector)(u[1] == first) & (vector)(w[1] == second) & (v1 == last);
    vector ends = (v0 == none) | (v1 == none);
    if (__builtin_ia32_pmovmskb256(low | high | ends) == 0)
      continue;
    state = candidates(s, block, bits(low, high), bits(v0 == none, v1 == none));
    if (state == FOUND || state == HARD)
      return state;
    if (state == ENDED)
      break;
  }
  s->block = block;
  s->at = block - reach;
  return state;
}

/* Each piece is searched for what begins in it, in a copy that ends there. */
APART const char *by_library(const char *in, const char *needle) {
  const char *last = memchr(needle, 0, LONGEST_NEEDLE + 1);
  struct curtail_pace p;
  char copy[COPIED + LONGEST_NEEDLE];
  if (last == NULL || !curtail_pace_begin(&p, CURTAIL_FIND_HARD, CURTAIL_HEAD / 4))
    return strstr(in, needle);
  for (size_t m = (size_t)(last - needle);;) {
    size_t part = curtail_pace_next(&p, COPIED);
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

/* What the first stretch has left open. */
APART const char *paced_strstr(struct search *s) {
  struct curtail_pace p;
  if (!curtail_pace_begin(&p, CURTAIL_FIND_TEXT, CURTAIL_HEAD / 4))
    return strstr(s->at, s->needle);
  for (;;) {
    const char *from = s->block;
    enum state state = scan(s, (curtail_pace_next(&p, SIZE_MAX) + BLOCK - 1) / BLOCK);
    curtail_pace_passed(&p, s->at > from ? (size_t)(s->at - from) : 0);
    if (state != MORE)
      return state == HARD ? by_library(s->at, s->needle) : state == FOUND ? s->at : NULL;
  }
}

char *curtail_strstr(const char *in, const char *needle) {
  if (!curtail_armed() || needle[0] == 0 || memchr == NULL || strchr == NULL)
    return strstr(in, needle);
  if (needle[1] == 0)
    return curtail_strchr(in, needle[0]);
  struct search s = {.text = in,
                     .needle = needle,
                     .reach = needle[2] != 0 ? 2 : 1,
                     .patience = FIRST_PATIENCE,
                     .at = in};
  if (!curtail_state_avx2())
    return (char *)by_library(in, needle);
  enum state state = begin(&s);
  if (state == MORE)
    state = scan(&s, FIRST_BLOCKS);
  switch (state) {
  case MORE:
    return (char *)paced_strstr(&s);
  case HARD:
    return (char *)by_library(s.at, needle);
  default:
    return state == FOUND ? (char *)s.at : NULL;
  }
}
