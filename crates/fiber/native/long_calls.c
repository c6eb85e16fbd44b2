/* Calls of the C library that may be long, in pieces with safepoints between them.
 *
 * The pass (pass/src/longcalls.cpp) has instrumented code come here instead of to the function of the
 * same name where the length says so, or where nobody knows it. Each is that function in all that can
 * be seen. Where nothing is armed, and in critical sections, the library's own is called, once.
 *
 * Runs on the thread that owns the block, as part of the code that calls; no vector register of the
 * caller's is live in a call. How long the pieces are, pace.c says.
 */
#define _GNU_SOURCE
#include "long_calls.h"
#include <string.h>

/* Whoever calls none of these need not have them. */
#pragma weak memchr
#pragma weak strchr
#pragma weak strlen

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
  if (!curtail_armed())
    return memcmp(a, b, n);
  size_t at = n < CURTAIL_FIRST_PIECE ? n : CURTAIL_FIRST_PIECE;
  int differ = memcmp(a, b, at);
  return differ != 0 || n == at ? differ
                                : paced_memcmp((const char *)a + at, (const char *)b + at, n - at);
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

void *curtail_memchr(const void *in, int byte, size_t n) {
  if (!curtail_armed())
    return memchr(in, byte, n);
  size_t at = n < CURTAIL_FIRST_PIECE ? n : CURTAIL_FIRST_PIECE;
  void *found = memchr(in, byte, at);
  return found != NULL || n == at ? found
                                  : (void *)paced_memchr((const char *)in + at, byte, n - at);
}

size_t curtail_strlen(const char *s) {
  if (!curtail_armed() || memchr == NULL)
    return strlen(s);
  const char *end = curtail_memchr(s, 0, SIZE_MAX);
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

char *curtail_strchr(const char *s, int byte) {
  return curtail_armed() && memchr != NULL ? (char *)paced_strchr(s, byte) : strchr(s, byte);
}
