/* The pieces of a long call, and the safepoints between them: what long_calls.c asks pace.c for. Nothing of the
 * block, its address included, is kept across a safepoint: another thread may take the fiber on. So the functions
 * that touch it are in pace.c, or are never inlined (APART). */
#ifndef CURTAIL_LONG_CALLS_H
#define CURTAIL_LONG_CALLS_H
#include "curtail_safepoint.h"
#include "state.h"
#include <stddef.h>

#ifdef __clang__
#define APART static __attribute__((noinline))
#else
#define APART static __attribute__((noipa))
#endif

/* What calls differ in speed. */
enum curtail_kind {
  CURTAIL_COPY,
  CURTAIL_SET,
  CURTAIL_COMPARE,
  CURTAIL_FIND, /* a byte */
  CURTAIL_FIND_CHAR, /* in text, whose end is looked for as well */
  CURTAIL_KINDS,
};

enum {
  /* So many bytes are not worth thinking about time: charged by their number. */
  CURTAIL_HEAD = 8192,
  /* Searches begin with so many, which are not charged. */
  CURTAIL_FIRST_PIECE = 256,
};

struct curtail_pace {
  enum curtail_kind kind;
  size_t head; /* bytes to go that are charged by their number */
  size_t piece; /* as long as the next one may be */
  size_t part; /* as long as this one is */
  uint64_t since; /* TSC at which this piece began, 0: it is not measured */
  uint64_t now; /* TSC, where it has just been read, else 0 */
  uint64_t speed; /* of the last that was measured, 0: none was */
};

/* A quantum is armed that ends at safepoints. */
static inline int curtail_armed(void) {
  uint32_t mode = curtail_safepoint.mode;
  return mode == CURTAIL_CLOCK || mode == CURTAIL_FLAG;
}

char *curtail_strchr(const char *, int);

/* A call that is done at once, for what its length says. */
CURTAIL_HIDDEN void curtail_pace_charge(size_t length);
/* Whether pieces make sense here. `head` as above; where there is none, the first piece may be long. */
CURTAIL_HIDDEN int curtail_pace_begin(struct curtail_pace *, enum curtail_kind, size_t head);
/* How long the next piece is, of so many bytes that are left. */
CURTAIL_HIDDEN size_t curtail_pace_next(struct curtail_pace *, size_t left);
/* Behind each piece, with as many bytes as were done: the safepoint. */
#define CURTAIL_SOMEWHERE SIZE_MAX /* it ended within the piece, at an unknown place */
CURTAIL_HIDDEN void curtail_pace_passed(struct curtail_pace *, size_t done);
#endif
