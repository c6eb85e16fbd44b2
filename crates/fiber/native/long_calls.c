/* Calls of the C library that may be long, in pieces with safepoints between them.
 *
 * The pass (pass/src/choose/longcalls.cpp) has instrumented code come here instead of to the function of
 * the same name where the length says so, or where the length is unknown. Each is that function in
 * all that can be seen. Where nothing is armed, and in critical sections, the library's own is
 * called, once; in critical sections by searches only if they did not end at once.
 *
 * Runs on the thread that owns the block, as part of the code that calls; no vector register of the
 * caller's is live in a call. How long the pieces are, pace.c says.
 */
#define _GNU_SOURCE
#include "long_calls.h"
#include <string.h>

/* A program that calls none of these need not have them. */
#pragma weak memchr
#pragma weak strchr
#pragma weak strlen

/* Most searches end soon. To look oneself costs them what the call of the library would, where to begin
 * with pieces costs several times that. */
enum { BLOCK = 32, PAGE = 4096 };
typedef char vector __attribute__((vector_size(16), aligned(1), may_alias));
#define VECTORS __attribute__((target("sse2")))

/* A bit for each byte that is one of two. */
VECTORS static inline uint64_t either(const char *block, char a, char b) {
  const vector *v = (const vector *)block;
  uint64_t bits = 0;
  for (int i = 0; i < BLOCK / 16; i++)
    bits |= (uint64_t)__builtin_ia32_pmovmskb128((v[i] == a) | (v[i] == b)) << 16 * i;
  return bits;
}

/* The first of these bytes, or null; then `at` is where to go on, within the first piece. What is searched
 * may end before the next page, and so does each block: the first, unless it is there, those after it by
 * being aligned. */
VECTORS static inline const char *soon(const char **at, char a, char b) {
  const char *in = *at, *block = in - (uintptr_t)in % BLOCK;
  uint64_t found = ((uintptr_t)in & (PAGE - 1)) > PAGE - BLOCK
                       ? either(block, a, b) >> (uintptr_t)in % BLOCK
                       : either(in, a, b);
  if (found != 0)
    return in + __builtin_ctzll(found);
  while (found == 0 && block + 2 * BLOCK <= in + CURTAIL_FIRST_PIECE)
    found = either(block += BLOCK, a, b);
  *at = block + BLOCK;
  return found != 0 ? block + __builtin_ctzll(found) : NULL;
}

APART void *paced_memcpy(char *to, const char *from, size_t n) {
  struct curtail_pace p;
  if (n <= CURTAIL_HEAD || !curtail_pace_begin(&p, CURTAIL_COPY, 0)) {
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
  return curtail_armed() ? paced_memcpy(to, from, n) : memcpy(to, from, n);
}

/* From the end towards which the bytes move, so that none is overwritten before it was read. */
APART void *paced_memmove(char *to, const char *from, size_t n) {
  struct curtail_pace p;
  if (n <= CURTAIL_HEAD || !curtail_pace_begin(&p, CURTAIL_COPY, 0)) {
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
  return curtail_armed() ? paced_memmove(to, from, n) : memmove(to, from, n);
}

APART void *paced_memset(char *to, int byte, size_t n) {
  struct curtail_pace p;
  if (n <= CURTAIL_HEAD || !curtail_pace_begin(&p, CURTAIL_COPY, 0)) {
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
  return curtail_armed() ? paced_memset(to, byte, n) : memset(to, byte, n);
}

APART int paced_memcmp(const char *a, const char *b, size_t n) {
  struct curtail_pace p;
  if (!curtail_pace_begin(&p, CURTAIL_COMPARE, CURTAIL_HEAD))
    return memcmp(a, b, n);
  for (size_t at = 0, part; at < n; at += part) {
    part = curtail_pace_next(&p, n - at);
    int differ = memcmp(a + at, b + at, part);
    curtail_pace_passed(&p, differ != 0 ? CURTAIL_SOMEWHERE : part);
    if (differ != 0)
      return differ;
  }
  return 0;
}

int curtail_memcmp(const void *a, const void *b, size_t n) {
  if (n <= CURTAIL_FIRST_PIECE || !curtail_armed())
    return memcmp(a, b, n);
  const size_t at = CURTAIL_FIRST_PIECE;
  int differ = memcmp(a, b, at);
  return differ != 0 ? differ : paced_memcmp((const char *)a + at, (const char *)b + at, n - at);
}

/* It reads no further than it has to, so `n` may be more than there is. */
APART const char *paced_memchr(const char *in, int byte, size_t n) {
  struct curtail_pace p;
  if (!curtail_pace_begin(&p, CURTAIL_FIND, CURTAIL_HEAD))
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

VECTORS void *curtail_memchr(const void *in, int byte, size_t n) {
  if (n <= CURTAIL_FIRST_PIECE || !curtail_armed())
    return memchr(in, byte, n);
  const char *at = in, *found = soon(&at, (char)byte, (char)byte);
  if (found == NULL)
    found = paced_memchr(at, byte, n - (size_t)(at - (const char *)in));
  return (char *)found;
}

VECTORS size_t curtail_strlen(const char *s) {
  if (!curtail_armed() || memchr == NULL)
    return strlen(s);
  const char *at = s, *end = soon(&at, 0, 0);
  if (end == NULL)
    end = paced_memchr(at, 0, SIZE_MAX);
  return (size_t)(end - s);
}

APART const char *paced_strchr(const char *s, int byte) {
  struct curtail_pace p;
  if (!curtail_pace_begin(&p, CURTAIL_FIND_CHAR, CURTAIL_HEAD))
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

VECTORS char *curtail_strchr(const char *s, int byte) {
  if (!curtail_armed() || memchr == NULL)
    return strchr(s, byte);
  const char *end = soon(&s, (char)byte, 0);
  if (end == NULL)
    end = paced_strchr(s, byte);
  else if (*end != (char)byte)
    end = NULL;
  return (char *)end;
}
