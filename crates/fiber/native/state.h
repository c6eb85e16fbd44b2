/* Which vector registers the stub has to save. Written once, by whichever thread first has to yield
 * (every thread would write the same values); read by the stub afterwards. */
#ifndef CURTAIL_STATE_H
#define CURTAIL_STATE_H

/* Widths of `curtail_state_width`; stub.S repeats the numbers. */
#define CURTAIL_WIDTH_UNKNOWN 0 /* not looked yet */
#define CURTAIL_WIDTH_SSE 1 /* xmm0-15 */
#define CURTAIL_WIDTH_AVX 2 /* ymm0-15 */
#define CURTAIL_WIDTH_AVX512 3 /* zmm0-31, k0-7 */
#define CURTAIL_WIDTH_STRANGE 4 /* AVX-512 without BW: no yields on such a machine */

/* What a look at the clock adds to the stretch that it ends. */
#define CURTAIL_CHECK_CYCLES 70

#ifndef __ASSEMBLER__
#include "curtail_safepoint.h"
#include <stdint.h>
#define CURTAIL_HIDDEN __attribute__((visibility("hidden")))

enum {
  /* Closer to the deadline than a nineteenth of the quantum counts as there. In mode FLAG the poll word
   * is looked at as often. In cycles no less than a look at the clock takes, and no more than a request
   * to yield may wait. */
  SLACK_SHARE = 19,
  LEAST_SLACK = 96,
  MOST_SLACK = 4096,
  INITIAL_SLACK = 272,
  /* Work between two looks at `poll`, or at a pending yield, when no deadline says more. */
  SHORT_GRANT = 600,
  /* No budget is smaller: the next safepoint is about this far away anyhow. */
  LEAST_GRANT = 64,
  /* What a budget is meant to reach into the slack. */
  EDGE_CYCLES = 60,
  INITIAL_RATE = 2048,
  /* In 1,024ths of a stretch. */
  INITIAL_DOUBT = 160,
  INITIAL_EDGE = INITIAL_RATE * EDGE_CYCLES / 1024,
};

/* What each thread's block is at first. Its budget is little, so that each thread comes to the slow
 * path once: see `curtail_batch_adopt`. */
#define CURTAIL_INITIAL_BLOCK                                                                      \
  {                                                                                                \
      .budget = SHORT_GRANT,                                                                       \
      .granted = SHORT_GRANT,                                                                      \
      .rate = INITIAL_RATE,                                                                        \
      .deadline = UINT64_MAX,                                                                      \
      .doubt = INITIAL_DOUBT,                                                                      \
      .pace = INITIAL_RATE * (1024 - INITIAL_DOUBT) / 1024,                                        \
      .edge = LEAST_GRANT > INITIAL_EDGE ? LEAST_GRANT : INITIAL_EDGE,                             \
      .slack = INITIAL_SLACK,                                                                      \
  }

static inline uint64_t tsc(void) {
  uint32_t lo, hi;
  __asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
  return (uint64_t)hi << 32 | lo;
}

CURTAIL_HIDDEN extern uint32_t curtail_state_width;
/* Ask the processor whether more than xmm0-15 is in use, and leave the rest clean if not. On Intel
 * processors, writing the upper halves of unused registers would slow down all SSE code after it. */
CURTAIL_HIDDEN extern uint32_t curtail_state_ask;

CURTAIL_HIDDEN void curtail_state_init(void);

/* The work that fits before the deadline, or before the next look at the clock: as the stub has it. */
static inline int64_t curtail_grant_for(const struct curtail_safepoint_block *b, uint64_t cycles) {
  cycles -= cycles > CURTAIL_CHECK_CYCLES ? CURTAIL_CHECK_CYCLES : cycles;
  return (int64_t)(cycles * b->pace >> 10) + b->edge;
}

/* See safepoint.c. */
CURTAIL_HIDDEN extern void (*curtail_quiet_hook)(struct curtail_safepoint_block *);
CURTAIL_HIDDEN extern void (*curtail_batch_adopt)(struct curtail_safepoint_block *);
#endif
#endif
