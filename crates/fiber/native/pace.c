/* How long the pieces of long calls are, and what is charged for them.
 *
 * In mode CLOCK, the clock is read between two pieces, and the time that is left in truth becomes the
 * budget, as it does when the stub looks. A piece is cut to what should fit before the deadline, by the
 * speed of the pieces before it. The first bytes of a call may be charged by their number instead
 * (`head`).
 *
 * What is charged is time, at the pace at which the budget was granted. The measuring of the rate
 * leaves it out: it says nothing of the program's own code.
 *
 * Runs on the thread that owns the block. The speeds are a thread's own.
 */
#include "long_calls.h"

enum {
  HEAD_SHIFT = 4, /* 16 bytes a unit */
  /* So long that cutting costs next to nothing, and so short that a request to yield is heard within
   * some microseconds. */
  MOST_PIECE = 32768,
  LEAST_PIECE = 512,
  /* The first of a call, unless the call has no more than twice as many bytes: where the data lies is
   * not known, or whether it is there yet. */
  TRIAL_PIECE = 8192,
  /* Searches begin with less, and double it: with the less where a piece is charged for, or looked
   * through, to its end. */
  FIRST_PIECE = 4096,
  EARLY_PIECE = 512,
  /* In mode FLAG another thread waits for each safepoint. */
  FLAG_PIECE = 8192,
  /* From here the last piece's speed says best what fits; from further away it would err by more. */
  NEARBY_CYCLES = 1500,
  /* A piece that takes so long might be twice as long. */
  QUICK_CYCLES = 800,
  /* A look at the clock. */
  LOOK_CYCLES = 47,
  /* Speeds are the cycles that 65,536 bytes take. The slowest, of memory which the kernel has yet to give: one
   * byte a cycle. */
  SPEED_SHIFT = 16,
  SLOWEST = 1 << SPEED_SHIFT,
};

/* What a piece may take at most: a quarter more than the slowest of those before it, which is forgotten by
 * halves. 0: not known. Not static: in a shared object it is the program's, as the block is, or there would
 * be room for few such objects. */
__thread uint32_t curtail_pace_speeds[CURTAIL_KINDS];

/* Not below zero, where it has not been: loops that are charged as a whole rely on that. Returns by
 * how much. */
static inline int64_t charge(struct curtail_safepoint_block *b, uint64_t work) {
  int64_t had = b->budget;
  int64_t part = had <= 0 ? 0 : work < (uint64_t)had ? (int64_t)work : had;
  b->budget = had - part;
  return part;
}

void curtail_pace_charge(size_t length) {
  if (curtail_safepoint.mode == CURTAIL_CLOCK)
    charge(&curtail_safepoint, length >> HEAD_SHIFT);
}

int curtail_pace_begin(struct curtail_pace *p, enum curtail_kind kind, size_t head) {
  struct curtail_safepoint_block *b = &curtail_safepoint;
  if (b->yield == NULL || b->critical != 0)
    return 0;
  p->kind = kind;
  p->now = p->speed = 0;
  p->head = head;
  int early = kind == CURTAIL_COMPARE || kind == CURTAIL_FIND_CHAR;
  p->piece = head == 0 ? MOST_PIECE : early ? EARLY_PIECE : FIRST_PIECE;
  return 1;
}

/* This close to the deadline the slow path is asked. */
static inline uint64_t near(const struct curtail_safepoint_block *b) {
  return (uint64_t)b->slack - LOOK_CYCLES / 2;
}

/* As much of a piece as should fit into `time`. */
static size_t cut(const struct curtail_pace *p, uint64_t time, size_t piece) {
  uint64_t speed = curtail_pace_speeds[p->kind];
  if (p->speed == 0) {
    piece = piece <= 2 * TRIAL_PIECE ? piece : TRIAL_PIECE;
    speed = speed != 0 ? speed : SLOWEST;
  } else if (p->speed > speed || time < NEARBY_CYCLES) {
    speed = p->speed;
  }
  if (piece * speed >> SPEED_SHIFT <= time)
    return piece;
  /* The next begins with a cache line, too. */
  size_t part = ((time << SPEED_SHIFT) / speed) & ~(size_t)63;
  return part > LEAST_PIECE ? part : piece < LEAST_PIECE ? piece : LEAST_PIECE;
}

/* What is left in truth becomes the budget. Returns how much of `piece` fits. */
static size_t look(struct curtail_safepoint_block *b, struct curtail_pace *p, size_t piece) {
  uint64_t now = p->now != 0 ? p->now : tsc();
  uint64_t time = b->deadline > now ? b->deadline - now : 0;
  int64_t budget = time > near(b) ? curtail_grant_for(b, time) : 0;
  b->readings += p->now == 0;
  b->granted += budget - b->budget;
  b->budget = budget;
  p->since = now;
  /* In the middle of the slack. */
  uint64_t early = (uint64_t)b->slack / 2;
  return cut(p, time > early ? time - early : 0, piece);
}

size_t curtail_pace_next(struct curtail_pace *p, size_t left) {
  struct curtail_safepoint_block *b = &curtail_safepoint;
  size_t piece = p->piece < left ? p->piece : left;
  p->since = 0;
  if (b->mode != CURTAIL_CLOCK)
    piece = piece < FLAG_PIECE ? piece : FLAG_PIECE;
  else if (p->head == 0)
    piece = look(b, p, piece);
  p->part = piece;
  return piece;
}

/* After it no block is known any more: it may be another thread's. */
APART void curtail_long_yield(void) { curtail_safepoint_slow_sse(); }

/* From a piece that took so long. No interruption makes it slower than the slowest. */
static void learn(struct curtail_pace *p, size_t done, uint64_t took) {
  if (done < LEAST_PIECE || done == CURTAIL_SOMEWHERE)
    return;
  p->speed = (((took > 2 * LOOK_CYCLES ? took - LOOK_CYCLES : took / 2) << SPEED_SHIFT) / done) | 1;
  uint32_t sample = (uint32_t)(p->speed < SLOWEST ? p->speed : SLOWEST), more = sample + sample / 4;
  uint32_t most = curtail_pace_speeds[p->kind];
  curtail_pace_speeds[p->kind] = more > most ? more : (most + more) / 2;
}

/* Is a look at the time due? Charges time that the program's own code had no part in. */
static inline int pass_measured(struct curtail_safepoint_block *b, struct curtail_pace *p,
                                size_t done) {
  uint64_t now = tsc(), took = now - p->since;
  learn(p, done, took);
  b->granted -= charge(b, took * b->pace >> 10);
  b->sample_start += b->sample_start != 0 ? took : 0;
  p->now = now;
  /* Known to be quick: twice as much at once. */
  if (p->piece == MOST_PIECE && took < QUICK_CYCLES)
    p->piece = 2 * MOST_PIECE;
  return b->deadline <= now || b->deadline - now <= near(b);
}

static inline int pass_head(struct curtail_safepoint_block *b, struct curtail_pace *p,
                            size_t done) {
  p->now = 0;
  if (done == CURTAIL_SOMEWHERE)
    done = p->part / 2;
  charge(b, done >> HEAD_SHIFT);
  p->head -= done < p->head ? done : p->head;
  return b->budget <= 0;
}

void curtail_pace_passed(struct curtail_pace *p, size_t done) {
  struct curtail_safepoint_block *b = &curtail_safepoint;
  int due = __atomic_load_n(&b->poll, __ATOMIC_RELAXED) != 0;
  if (p->piece < MOST_PIECE)
    p->piece *= 2;
  if (b->mode == CURTAIL_CLOCK)
    due |= p->since != 0 ? pass_measured(b, p, done) : pass_head(b, p, done);
  if (!due)
    return;
  curtail_long_yield();
  p->now = 0;
}
