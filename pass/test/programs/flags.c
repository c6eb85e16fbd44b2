/* Safepoints of flag builds, by one thread and no clock: the program raises its own poll word, and its
 * hook must be called for it, in every shape of loop and call that the pass tells apart.
 *
 * In a row: the hook lowers the word at the last of IN_A_ROW firings, far fewer than a shape has
 * safepoints, so there must be exactly so many. One by one: the word is raised every 1,000 steps, and
 * the hook must come within the bound, a step being more than a unit; so each must count.
 * Nothing asked, or nothing armed: none. In a critical section: one, where it ends.
 * Prints what is wrong, or that nothing is. */
#define _GNU_SOURCE
#include "curtail_safepoint.h"
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IN_A_ROW = 20, EVERY = 1000, BOUND = 600, WORDS = 1 << 16, TEXT = 8 << 20 };

static struct curtail_safepoint_block *self;
static unsigned asked, fired, late, wrong;
static volatile unsigned step, asked_at;
static volatile unsigned zero; /* the compiler does not know it */
static volatile uint64_t sink;
static uint32_t words[WORDS];
static char *text, *copy;

CURTAIL_NO_SAFEPOINT static void hook(struct curtail_safepoint_block *b) {
  fired++;
  late += step - asked_at > BOUND;
  b->poll = fired < asked;
}

#define SHAPE static __attribute__((noinline)) void

SHAPE counted(void) {
  uint32_t sum = 0;
  for (unsigned i = 0; i < WORDS - zero; i++)
    sum += words[i];
  sink = sum;
}

SHAPE leaves_early(void) {
  unsigned i = 0;
  for (; i < WORDS - zero; i++)
    if (words[i] == 0)
      break;
  sink = i;
}

SHAPE uncounted(void) {
  unsigned n = 0;
  for (unsigned start = 1; start < 3000; start++)
    for (uint64_t x = start; x != 1; n++)
      x = x & 1 ? 3 * x + 1 : x / 2;
  sink = n;
}

SHAPE short_rows(void) {
  uint32_t sum = 0;
  unsigned row = 7 - zero;
  for (unsigned i = 0; i + row < WORDS - zero; i += row)
    for (unsigned j = 0; j < row; j++)
      sum = sum * 31 + words[i + j];
  sink = sum;
}

struct link {
  struct link *next;
};
SHAPE list(void) {
  static struct link links[WORDS];
  for (unsigned i = 0; i + 1 < WORDS; i++)
    links[i].next = &links[i + 1];
  unsigned length = 0;
  for (struct link *at = links; at != NULL; at = at->next)
    length++;
  sink = length;
}

/* A loop with several entries. */
SHAPE interpreter(void) {
  static void *const labels[] = {&&add, &&twist, &&again};
  static const unsigned char code[] = {0, 1, 0, 0, 1, 2};
  uint64_t a = 1, fuel = 200000 - zero;
  const unsigned char *at = code;
#define NEXT                                                                                       \
  if (--fuel == 0) {                                                                               \
    sink = a;                                                                                      \
    return;                                                                                        \
  }                                                                                                \
  goto *labels[*at++]
  NEXT;
add:
  a += fuel;
  NEXT;
twist:
  a ^= a << 7;
  NEXT;
again:
  at = code;
  NEXT;
}

static __attribute__((noinline)) unsigned fibonacci(unsigned n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}
SHAPE recursion(void) { sink = fibonacci(22); }

static __attribute__((noinline)) unsigned left(unsigned n);
static __attribute__((noinline)) unsigned right(unsigned n) {
  sink = sink + n; /* so that no call does for both */
  return n ? left(n - 1) * 3 + left(n - 1) : 1;
}
static unsigned left(unsigned n) {
  sink = sink ^ n;
  return n ? right(n - 1) ^ right(n - 1) : 2;
}
SHAPE mutual_recursion(void) { sink = left(16); }

static unsigned up(unsigned x) { return x * 5 + 1; }
static unsigned down(unsigned x) { return x / 3; }
SHAPE pointers(void) {
  unsigned (*volatile calls[])(unsigned) = {up, down};
  unsigned x = 1;
  for (unsigned i = 0; i < 100000; i++)
    x = calls[i & 1](x);
  sink = x;
}

static __attribute__((noinline)) unsigned leaf(unsigned x) { return x ^ x >> 3; }
SHAPE leaves(void) {
  unsigned x = 1;
  for (unsigned i = 0; i < 100000 - zero; i++)
    x += leaf(x + i);
  sink = x;
}

static int ascending(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}
SHAPE callbacks(void) {
  static uint32_t sorted[WORDS];
  memcpy(sorted, words, sizeof sorted);
  qsort(sorted, WORDS, sizeof *sorted, ascending);
  sink = sorted[WORDS / 2];
}

SHAPE extended(void) {
  long double sum = 0;
  for (unsigned i = 1; i < 100000 - zero; i++)
    sum += 1.0L / i;
  sink = (uint64_t)sum;
}

/* Nothing in such a function is cut into chunks. */
SHAPE returns_twice(void) {
  static jmp_buf back;
  static volatile unsigned turns;
  turns = 0;
  setjmp(back);
  for (volatile unsigned i = 0; i < 1000; i++)
    sink = sink + i;
  if (++turns < 100)
    longjmp(back, 1);
}

SHAPE long_copy(void) {
  memcpy(copy, text, TEXT - zero);
  sink = (uint64_t)copy[zero];
}

SHAPE long_search(void) { sink = strlen(text + zero); }

static const struct {
  const char *name;
  void (*run)(void);
} shapes[] = {
    {"counted loop", counted},
    {"loop that may leave early", leaves_early},
    {"uncounted loop", uncounted},
    {"short rows", short_rows},
    {"list", list},
    {"interpreter", interpreter},
    {"recursion", recursion},
    {"mutual recursion", mutual_recursion},
    {"calls through pointers", pointers},
    {"calls of leaves", leaves},
    {"callbacks", callbacks},
    {"long double", extended},
    {"setjmp", returns_twice},
    {"long copy", long_copy},
    {"long search", long_search},
};

/* Raises the word at every 1,000th step. */
#define STEP                                                                                       \
  do {                                                                                             \
    step = step + 1;                                                                               \
    if (step % EVERY == 0) {                                                                       \
      asked_at = step;                                                                             \
      self->poll = 1;                                                                              \
    }                                                                                              \
  } while (0)

/* Each takes the steps to a number that ends in 999. */
SHAPE step_counted(void) {
  for (unsigned i = 0; i < 100999 - zero; i++)
    STEP;
}
SHAPE step_uncounted(void) {
  while (step != 100999)
    STEP;
}
static unsigned one(unsigned x) {
  STEP;
  return x + 1;
}
SHAPE step_pointers(void) {
  unsigned (*volatile call)(unsigned) = one;
  for (unsigned x = 0; x < 100999;)
    x = call(x);
}
static __attribute__((noinline)) unsigned tree(unsigned n) {
  STEP;
  return n ? tree(n - 1) * 3 + tree(n - 1) : 1;
}
SHAPE step_recursion(void) {
  sink = tree(14);
  while (step % EVERY != EVERY - 1)
    STEP;
}

static const struct {
  const char *name;
  void (*run)(void);
} stepping[] = {
    {"counted steps", step_counted},
    {"uncounted steps", step_uncounted},
    {"steps of called functions", step_pointers},
    {"steps of recursion", step_recursion},
};

CURTAIL_NO_SAFEPOINT static void expect(const char *what, const char *name, unsigned firings) {
  if (fired == firings && late == 0 && self->poll == 0)
    return;
  printf("%s, %s: %u firings instead of %u, %u too late, poll %u\n", name, what, fired, firings, late,
         self->poll);
  wrong = 1;
}

CURTAIL_NO_SAFEPOINT static void ask(unsigned count) {
  fired = late = 0;
  step = asked_at = 0;
  asked = count;
  self->poll = count != 0;
}

CURTAIL_NO_SAFEPOINT static void try_shape(const char *name, void (*run)(void)) {
  curtail_safepoint_arm(self, CURTAIL_FLAG, 0, 0);
  ask(0);
  run();
  expect("nothing asked", name, 0);
  ask(1);
  run();
  expect("asked once", name, 1);
  ask(IN_A_ROW);
  run();
  expect("asked in a row", name, IN_A_ROW);
  ask(1);
  curtail_enter_critical();
  run();
  counted(); /* the library's own copies have no safepoints, and here they are not cut */
  unsigned inside = fired;
  curtail_leave_critical();
  fired += inside * 1000;
  expect("in a critical section", name, 1);
  curtail_safepoint_disarm(self);
  ask(1);
  run();
  self->poll = 0; /* it may have met no safepoint: the library's own copies have none */
  expect("not armed", name, 0);
}

CURTAIL_NO_SAFEPOINT static void try_steps(const char *name, void (*run)(void)) {
  curtail_safepoint_arm(self, CURTAIL_FLAG, 0, 0);
  ask(0);
  run();
  expect("asked every 1,000 steps", name, step / EVERY);
  curtail_safepoint_disarm(self);
}

CURTAIL_NO_SAFEPOINT int main(void) {
  self = curtail_safepoint_self();
  self->yield = hook;
  text = malloc(TEXT + 1);
  copy = malloc(TEXT + 1);
  if (text == NULL || copy == NULL)
    return 1;
  memset(text, 'a', TEXT);
  text[TEXT] = 0;
  for (uint32_t i = 0; i < WORDS; i++)
    words[i] = i * 2654435761u | 1;
  if (curtail_safepoint_kind() != 1) {
    printf("kind %d: no flag build\n", curtail_safepoint_kind());
    return 1;
  }
  for (unsigned i = 0; i < sizeof shapes / sizeof *shapes; i++)
    try_shape(shapes[i].name, shapes[i].run);
  for (unsigned i = 0; i < sizeof stepping / sizeof *stepping; i++)
    try_steps(stepping[i].name, stepping[i].run);
  if (!wrong)
    puts("all asked for, all fired");
  return (int)wrong;
}
