/* The slow path's decision, and the calls of the safepoint ABI.
 *
 * Everything here runs on the thread that owns the block; `poll` alone is written by others. It may
 * run at any instrumented point with every vector register live, so this file is compiled with
 * general registers only and calls nothing that is not.
 *
 * Mode CLOCK: the budget is work (IR instructions), the deadline is TSC cycles; `rate` converts and
 * is measured at each end of a quantum, and so is `doubt`, how far off it was lately. Both go into
 * `pace`, by which budgets are granted: they aim as far before the deadline as is doubtful, so that a
 * steady program reads the clock once a quantum, an unsteady one more often, the more densely the
 * nearer the end. The readings before the last are the stub's own, in a score of instructions.
 */
#include "curtail_safepoint.h"
#include "state.h"
#include <stddef.h>

enum {
  /* No sample is shorter. */
  LEAST_SAMPLE_CYCLES = 400,
  LEAST_RATE = 8,
  MOST_RATE = 16384,
  /* 3.7 us at a quarter of a unit a cycle and 2.6 GHz, 0.5 us at the usual rate. */
  MOST_FLAG_GRANT = 2400,
  /* Doubt is in 1,024ths of a stretch. */
  MOST_DOUBT = 560,
};

/* No deadline is farther away (30 hours): the product with the pace must fit. */
#define MOST_AHEAD ((uint64_t)1 << 48)

/* Weak: programs whose safepoints poll have one on a page of its own (kind_flag.c). */
__attribute__((weak)) __thread struct curtail_safepoint_block curtail_safepoint =
    CURTAIL_INITIAL_BLOCK;

_Static_assert(offsetof(struct curtail_safepoint_block, budget) == 0, "ABI");
_Static_assert(offsetof(struct curtail_safepoint_block, poll) == 8, "ABI");
_Static_assert(offsetof(struct curtail_safepoint_block, critical) == 12, "ABI");
_Static_assert(offsetof(struct curtail_safepoint_block, locks) == 14, "ABI");
_Static_assert(offsetof(struct curtail_safepoint_block, pending) == 16, "ABI");
_Static_assert(offsetof(struct curtail_safepoint_block, yield) == 56, "ABI");
_Static_assert(offsetof(struct curtail_safepoint_block, deadline) == 24, "ABI");
_Static_assert(offsetof(struct curtail_safepoint_block, granted) == 40, "ABI");
_Static_assert(offsetof(struct curtail_safepoint_block, pace) == 64, "ABI");
_Static_assert(offsetof(struct curtail_safepoint_block, edge) == 72, "ABI");
_Static_assert(offsetof(struct curtail_safepoint_block, readings) == 80, "ABI");
_Static_assert(offsetof(struct curtail_safepoint_block, watch) == 112, "ABI");
_Static_assert(offsetof(struct curtail_safepoint_block, slack) == 120, "ABI");
_Static_assert(offsetof(struct curtail_safepoint_block, context) == 128, "the runtime's");
_Static_assert(offsetof(struct curtail_safepoint_block, kthread) == 136, "the runtime's");
_Static_assert(offsetof(struct curtail_safepoint_block, base) == 144, "the runtime's");
_Static_assert(offsetof(struct curtail_safepoint_block, ticks) == 152, "the runtime's");
_Static_assert(offsetof(struct curtail_safepoint_block, raised_at) == 160, "the runtime's");
_Static_assert(offsetof(struct curtail_safepoint_block, grace) == 168, "the runtime's");
_Static_assert(sizeof(struct curtail_safepoint_block) == 192, "ABI");

/* A different ABI gives this symbol a different name: mixing two fails at link time. */
const int curtail_safepoint_abi_1 = CURTAIL_SAFEPOINT_ABI;

/* Overridden by the archive member that the driver asks for (kind_clock.c, kind_flag.c). */
__attribute__((weak)) const int curtail_safepoint_built = 0;
__attribute__((weak)) const int curtail_safepoint_paged = 0;

static inline uint32_t poll_of(const struct curtail_safepoint_block *b) {
  return __atomic_load_n(&b->poll, __ATOMIC_RELAXED);
}

static inline void grant(struct curtail_safepoint_block *b, int64_t work) {
  b->budget = work;
  b->granted = work;
}

/* Work between two looks at the poll word: what is done within the slack, at the rate of a program that
 * is not known. At most so much that a slow program looks soon enough, too. */
static inline int64_t flag_grant(const struct curtail_safepoint_block *b) {
  int64_t work = b->slack * INITIAL_RATE / 1024;
  return work < MOST_FLAG_GRANT ? work : MOST_FLAG_GRANT;
}

static inline void begin_sample(struct curtail_safepoint_block *b, uint64_t now) {
  b->sample_start = now;
  b->sample_readings = b->readings;
}

/* Learns from the stretch that ends now: a whole quantum, mostly. */
static inline void measure(struct curtail_safepoint_block *b, uint64_t now) {
  uint64_t done = (uint64_t)b->granted - (uint64_t)b->budget, elapsed = now - b->sample_start;
  uint64_t overhead = (b->readings - b->sample_readings) * CURTAIL_CHECK_CYCLES;
  if (elapsed - LEAST_SAMPLE_CYCLES > UINT32_MAX || done - 1 >= UINT32_MAX)
    return;
  elapsed = elapsed > 2 * overhead ? elapsed - overhead : elapsed / 2;
  uint64_t sample = (done << 10) / elapsed, rate = b->rate, doubt = b->doubt;
  uint64_t off = sample < rate ? rate - sample : sample - rate;
  /* Five eighths of it, divided by the power of two below the rate, not by the rate: nine tenths on
   * average. */
  uint64_t now_off = off * 640 >> (63 - __builtin_clzll(rate));
  now_off = now_off > MOST_DOUBT ? MOST_DOUBT : now_off;
  /* Quick to doubt, slow to trust: what is late once is late again, where arrays outgrow caches,
   * say. Without branches: these could not be predicted. */
  uint64_t worse = now_off > doubt, slower = sample < rate;
  doubt = ((7 - 4 * worse) * doubt + now_off) >> (3 - worse);
  rate = ((2 - slower) * rate + (2 + slower) * sample) >> 2;
  rate = rate < LEAST_RATE ? LEAST_RATE : rate > MOST_RATE ? MOST_RATE : rate;
  int64_t edge = (int64_t)(rate * EDGE_CYCLES >> 10);
  b->doubt = doubt;
  b->rate = rate;
  b->pace = rate * (1024 - doubt) >> 10;
  b->edge = edge < LEAST_GRANT ? LEAST_GRANT : edge;
}

int curtail_safepoint_saves_all(void) {
  if (curtail_state_width == CURTAIL_WIDTH_UNKNOWN)
    curtail_state_init();
  return curtail_state_width != CURTAIL_WIDTH_STRANGE;
}

/* A hook that touches general registers only, and switches to no other fiber: called without the
 * vector registers being saved. Set before any thread has it as its hook. */
CURTAIL_HIDDEN void (*curtail_quiet_hook)(struct curtail_safepoint_block *);

/* What threads without a hook get at their first slow path; NULL: none. Set before main. */
CURTAIL_HIDDEN void (*curtail_batch_adopt)(struct curtail_safepoint_block *);

/* A yield is due, in a critical section or while a lock is held: then others would wait for the lock
 * meanwhile. A lock that is held for longer than the grace does not keep off a yield, or all would wait for
 * its holder. */
static int grace_is_over(struct curtail_safepoint_block *b) {
  uint64_t now = __builtin_ia32_rdtsc();
  if (b->pending == 0)
    b->grace_end = now + b->grace;
  return b->critical == 0 && now >= b->grace_end;
}

static struct curtail_safepoint_block *due(struct curtail_safepoint_block *b) {
  /* A thread that yields without arming anew, or that is inside a critical section, gets here again
   * soon, not at each safepoint. */
  grant(b, SHORT_GRANT);
  if ((b->critical != 0 || b->locks != 0) && !grace_is_over(b)) {
    b->pending = 1;
    return NULL;
  }
  b->pending = 0;
  if (curtail_quiet_hook != NULL && b->yield == curtail_quiet_hook) {
    curtail_quiet_hook(b);
    return NULL;
  }
  return curtail_safepoint_saves_all() ? b : NULL;
}

/* Whether there is nothing that the hook would want to see; then another quantum has begun. */
static int goes_on(struct curtail_safepoint_block *b, uint64_t now) {
  struct curtail_watch *watch = b->watch;
  if (now >= watch->until || now > b->deadline + watch->most_late)
    return 0;
  for (int at = 0; at < 3; at++)
    if (__atomic_load_n(watch->words[at], __ATOMIC_ACQUIRE) != watch->usual[at])
      return 0;
  watch->passed += 1;
  b->deadline = now + watch->beat;
  grant(b, curtail_grant_for(b, watch->beat));
  return 1;
}

/* Called by the stub: the block if its `yield` is to be called, NULL to go on. `now` is the TSC where
 * the deadline of mode CLOCK is reached and there is no other reason to be here; otherwise 0. */
CURTAIL_HIDDEN struct curtail_safepoint_block *curtail_safepoint_check(uint64_t now) {
  struct curtail_safepoint_block *b = &curtail_safepoint;
  if (__builtin_expect(now != 0 && b->yield != NULL, 1)) {
    if (b->sample_start != 0)
      measure(b, now);
    begin_sample(b, now);
    b->refilled_at = now;
    return b->watch != NULL && goes_on(b, now) ? NULL : due(b);
  }
  if (b->mode == CURTAIL_OFF || b->mode == CURTAIL_SIGNAL || b->yield == NULL) {
    if (poll_of(b) != 0)
      __atomic_store_n(&b->poll, 0, __ATOMIC_RELAXED);
    if (b->mode != CURTAIL_SIGNAL) /* its ticks go by it */
      b->deadline = UINT64_MAX;
    grant(b, INT64_MAX);
    if (curtail_batch_adopt != NULL && b->yield == NULL && b->critical == 0 && b->locks == 0)
      curtail_batch_adopt(b);
    return NULL;
  }
  if (b->mode == CURTAIL_RAISED) {
    now = __builtin_ia32_rdtsc();
    if (now < b->deadline)
      return NULL;
    b->refilled_at = now;
    return due(b);
  }
  if (b->pending == 0 && poll_of(b) == 0) {
    grant(b, b->mode == CURTAIL_FLAG ? flag_grant(b) : SHORT_GRANT);
    return NULL;
  }
  b->refilled_at = 0; /* the clock was not read */
  b->sample_start = 0; /* what goes on now is no sample: it would be too long */
  return due(b);
}

/* Called by the stub when a signal's handler sent the thread there: as above. The handler has looked
 * at depths and deadline. */
CURTAIL_HIDDEN struct curtail_safepoint_block *curtail_safepoint_landed(void) {
  struct curtail_safepoint_block *b = &curtail_safepoint;
  b->refilled_at = 0; /* the hook reads the clock itself */
  return b->yield != NULL && curtail_safepoint_saves_all() ? b : NULL;
}

struct curtail_safepoint_block *curtail_safepoint_self(void) { return &curtail_safepoint; }

void curtail_safepoint_arm(struct curtail_safepoint_block *b, uint32_t mode, uint64_t now,
                           uint64_t deadline) {
  if (deadline > now + MOST_AHEAD)
    deadline = now + MOST_AHEAD;
  b->mode = mode;
  b->pending = 0;
  b->deadline = deadline;
  b->refilled_at = now;
  begin_sample(b, now);
  uint64_t quantum = deadline > now ? deadline - now : 0, slack = quantum / SLACK_SHARE;
  uint64_t most = b->most_grace & ~CURTAIL_GRACE_EXACT;
  b->grace = most != b->most_grace || quantum > most ? most : quantum;
  b->slack = (int64_t)(slack < LEAST_SLACK ? LEAST_SLACK : slack > MOST_SLACK ? MOST_SLACK : slack);
  if (mode == CURTAIL_RAISED)
    __atomic_store_n(&b->poll, 1, __ATOMIC_RELAXED);
  if (mode == CURTAIL_CLOCK)
    grant(b, quantum != 0 ? curtail_grant_for(b, quantum) : 0);
  else
    grant(b, mode == CURTAIL_FLAG ? flag_grant(b) : INT64_MAX);
}

void curtail_safepoint_disarm(struct curtail_safepoint_block *b) {
  b->mode = CURTAIL_OFF;
  b->pending = 0;
  b->deadline = UINT64_MAX;
  grant(b, INT64_MAX);
}

void curtail_enter_critical(void) {
  curtail_safepoint.critical += 1;
  __asm__ volatile("" ::: "memory");
}

void curtail_leave_critical(void) {
  struct curtail_safepoint_block *b = &curtail_safepoint;
  __asm__ volatile("" ::: "memory");
  /* A lock taken off a fiber and given back on one: nothing was raised for it. */
  if (b->critical == 0)
    return;
  b->critical -= 1;
  if (b->critical == 0 && b->locks == 0 && b->pending != 0)
    curtail_yield_pending();
}

void curtail_yield_pending(void) {
  struct curtail_safepoint_block *b = &curtail_safepoint;
  b->pending = 0;
  if (b->mode != CURTAIL_OFF && b->yield != NULL)
    b->yield(b);
}

int curtail_safepoint_kind(void) { return *(const volatile int *)&curtail_safepoint_built; }

int curtail_safepoint_has_page(void) { return *(const volatile int *)&curtail_safepoint_paged; }
