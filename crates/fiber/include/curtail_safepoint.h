/* The safepoint ABI: what instrumented code, the slow path and the runtime agree on.
 *
 * Instrumented code touches one thread-local block. Two kinds of fast path:
 *
 *   flag   cmpl $0, %fs:poll;        jne  cold      another thread writes `poll`
 *   clock  subq $cost, %fs:budget;   js   cold      the thread times itself: `cost` is the work
 *                                                   (IR instructions) since the last safepoint
 *
 * `cold` calls curtail_safepoint_slow, a stub that preserves every register, so that a safepoint
 * forces no spill and a leaf stays a leaf: the pass emits the call as inline assembly that clobbers
 * the flags (and, where a function uses it, the x87 stack), and marks the function noredzone. The
 * stub aligns the stack, asks curtail_safepoint_check and, if that says so, calls block->yield with
 * all state saved.
 *
 * In loops whose iterations are short, the budget lives in a register: loaded before the loop,
 * written back before `cold` and behind the loop. So `budget` in memory may be old between two
 * safepoints, and a write to it from a signal handler may be lost.
 *
 * Clock-built code serves every mode: in mode FLAG the budget is kept short and the slow path polls
 * the word. Flag-built code serves OFF, FLAG and RAISED.
 *
 * Who writes what: the owning thread everything; other threads `poll` alone (relaxed atomic store of
 * a non-zero value), and only while the owner keeps its block published. Offsets are ABI: the
 * pass, the stub and the runtime's compile-time asserts repeat them.
 */
#ifndef CURTAIL_SAFEPOINT_H
#define CURTAIL_SAFEPOINT_H
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CURTAIL_SAFEPOINT_ABI 1

enum curtail_mode {
  CURTAIL_OFF = 0,    /* never yield; the budget is refilled with the largest value */
  CURTAIL_FLAG = 1,   /* yield when `poll` is non-zero */
  CURTAIL_CLOCK = 2,  /* yield when the TSC has reached `deadline`, or `poll` is non-zero */
  CURTAIL_SIGNAL =
      3, /* safepoints go on, as in OFF: a signal's handler sees to yields, and notes in
                       * `pending` those that leaving a critical section is to make up for */
  CURTAIL_RAISED = 4, /* for threads of flag-built code that no other thread watches: `poll` stays
                       * raised, so that each safepoint takes the slow path and reads the TSC */
};

/* The highest bit of `most_grace`. */
#define CURTAIL_GRACE_EXACT ((uint64_t)1 << 63)

/* What a thread looks at before it saves its vector registers for a call of `yield`: as long as the
 * words are as usual, it is not yet `until`, and the quantum ended in time, its end begins another
 * one without a call. Written by the owning thread; the words by others. Its layout is the runtime's
 * own business: instrumented code does not see it, and it may change without a new ABI. */
struct curtail_watch {
  const uint32_t *words[3];
  uint32_t usual[3];
  uint64_t until; /* TSC */
  uint64_t beat; /* cycles of each quantum */
  uint64_t most_late; /* cycles behind the deadline that are in time, below 2^62 */
  uint64_t passed; /* quanta that ended without a call */
};

struct curtail_safepoint_block {
  int64_t budget; /*  0: clock fast path; below zero: slow path */
  uint32_t poll; /*  8: flag fast path; non-zero: slow path */
  uint16_t critical; /* 12: critical-section depth; no yield unless 0 */
  uint16_t locks; /* 14: locks held; where it is not 0, a yield waits for the grace's end */
  uint32_t pending; /* 16: a yield was due while one of these was not 0 */
  uint32_t mode; /* 20: enum curtail_mode */
  uint64_t deadline; /* 24: TSC at which the quantum ends */
  uint64_t refilled_at; /* 32: TSC of the last refill */
  int64_t granted; /* 40: all budget given since the sample began */
  uint64_t rate; /* 48: work per 1,024 cycles, measured as the program runs */
  /* 56: called by the stub on the interrupted stack with everything saved; may switch fibers. NULL:
   * there is nothing to yield to, the safepoint goes on. */
  void (*yield)(struct curtail_safepoint_block *);
  uint64_t pace; /* 64: the rate less the doubt: what a cycle ahead is granted, */
  int64_t edge; /* 72: and what is granted besides */
  uint64_t readings; /* 80: how often the clock was read */
  uint64_t sample_start; /* 88: TSC, 0: none; the rate is measured since then, */
  uint64_t sample_readings; /* 96: when there had been so many readings */
  uint64_t doubt; /* 104: how far off the rate was lately, in 1,024ths */
  struct curtail_watch *watch; /* 112: NULL: every end of a quantum calls `yield` */
  int64_t slack; /* 120: closer to the deadline than so many cycles counts as there */
  /* What the runtime keeps for the code that runs: its own business, as the watch is. Where a stack has
   * thread-locals of its own, it has a block of its own, too, and each switch to it brings these. */
  const void *context; /* 128: of the fiber that runs; NULL: none does */
  const void *kthread; /* 136: NULL: a thread of the kernel's that runs no fibers */
  uintptr_t base; /* 144: the kthread's own thread pointer; 0: as above */
  const void *ticks; /* 152: of mode SIGNAL */
  uint32_t **raised_at; /* 160: where the kthread tells others which word to raise; NULL: nowhere */
  uint64_t grace; /* 168: how long a quantum that ends while a lock is held goes on, in cycles */
  uint64_t
      most_grace; /* 176: as long as the quantum, but so much at most; or CURTAIL_GRACE_EXACT and so much */
  uint64_t grace_end; /* 184: TSC; while `pending` */
} __attribute__((aligned(64)));

#ifdef __cplusplus
#define CURTAIL_TLS extern thread_local
#else
#define CURTAIL_TLS extern _Thread_local
#endif
CURTAIL_TLS struct curtail_safepoint_block curtail_safepoint;

/* This thread's block. Its address is stable for the thread's life; a fiber with thread-locals of its
 * own has one of its own. */
struct curtail_safepoint_block *curtail_safepoint_self(void);

/* The register-preserving stub. Called by instrumented code only: at any stack alignment, but never
 * from a function that uses the red zone, and with the x87 register stack empty. The flags are
 * lost. Control words (MXCSR, x87) are saved too; the hook finds the ABI's defaults in them. */
void curtail_safepoint_slow(void);
/* The same for code compiled without AVX: of the vector registers it keeps xmm0-15. */
void curtail_safepoint_slow_sse(void);

/* Starts a quantum: sets mode, deadline and budget, forgets a pending yield. `deadline` matters in
 * modes CLOCK and RAISED only. `poll` is left as it is, but for mode RAISED, which raises it: the
 * caller clears it first, if it is to be cleared. */
void curtail_safepoint_arm(struct curtail_safepoint_block *, uint32_t mode, uint64_t now,
                           uint64_t deadline);
/* No yield until armed again. */
void curtail_safepoint_disarm(struct curtail_safepoint_block *);

/* Critical sections, for code that the compiler cannot see through. They nest. Leaving the
 * outermost yields if a yield fell due inside. */
void curtail_enter_critical(void);
void curtail_leave_critical(void);
/* What leaving the outermost does where `pending` is set: for code that changes the depths itself. */
void curtail_yield_pending(void);

/* Whether all of this machine's vector registers can be saved; where not, nothing yields. */
int curtail_safepoint_saves_all(void);

/* What this program was built with: 0 not instrumented, 1 flag, 2 clock. */
int curtail_safepoint_kind(void);

/* Whether each thread's block lies on a page of its own, at its beginning: in programs of kind flag. */
int curtail_safepoint_has_page(void);

/* What the pass reads; other compilers than clang have no use for it, and would warn. */
#ifdef __clang__
#define CURTAIL_ANNOTATE(what) __attribute__((annotate(what), noinline))
#else
#define CURTAIL_ANNOTATE(what) __attribute__((noinline))
#endif

/* Keeps a C or C++ function free of safepoints; what it calls may have some. In Rust:
 * #[inline(never)] #[unsafe(link_section = ".text.curtail_no_safepoint")]. */
#define CURTAIL_NO_SAFEPOINT CURTAIL_ANNOTATE("curtail.no_safepoint")

/* The same, and what it calls does not yield meanwhile either: for signal handlers that the compiler
 * does not see installed, and for code that must not be entered twice. In Rust, the section is
 * ".text.curtail_no_preempt". */
#define CURTAIL_NO_PREEMPT CURTAIL_ANNOTATE("curtail.no_preempt")

#ifdef __cplusplus
}
#endif
#endif
