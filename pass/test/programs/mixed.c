/* A bit of everything that C does with control flow and state, its results printed: loops, recursion,
 * setjmp, thread-locals, varargs, computed goto, long double, switch, qsort's callbacks, alloca. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t loops(const uint32_t *data, int n) {
  uint64_t sum = 0;
  for (int i = 0; i < n; i++)
    for (int j = i & 7; j < n; j += 3)
      sum += data[j] ^ (uint32_t)i;
  return sum;
}

static int fib(int n) {
  return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

static int odd(unsigned n);
static int even(unsigned n) {
  return n == 0 ? 1 : odd(n - 1);
}
static int odd(unsigned n) {
  return n == 0 ? 0 : even(n - 1);
}

static jmp_buf back;
static void dive(int depth) {
  volatile int pad[4] = {depth};
  if (depth == 0)
    longjmp(back, 1);
  dive(depth - 1);
  pad[1] = pad[0];
}
static int jumps(int rounds) {
  volatile int count = 0;
  for (volatile int i = 0; i < rounds; i++)
    if (setjmp(back) == 0)
      dive(20);
    else
      count += 1;
  return count;
}

static _Thread_local uint64_t counter;
static __attribute__((noinline)) uint64_t bump(uint64_t by) {
  return counter += by;
}
static uint64_t locals(int n) {
  for (int i = 0; i < n; i++) {
    counter ^= (uint64_t)i;
    bump(counter & 3);
  }
  return counter;
}

static long varied(int count, ...) {
  va_list list;
  long sum = 0;
  va_start(list, count);
  for (int i = 0; i < count; i++)
    sum += i % 2 ? (long)va_arg(list, double) : va_arg(list, long);
  va_end(list);
  return sum;
}

/* An interpreter whose dispatch is a computed goto: its loop is no branch that a pass can split. */
static int64_t interpret(const unsigned char *code, int64_t fuel) {
  static void *const labels[] = {&&add, &&subtract, &&twist, &&jump};
  int64_t a = 1, b = 7;
  const unsigned char *at = code;
#define NEXT                                                                                       \
  if (--fuel <= 0)                                                                                 \
    return a ^ b;                                                                                  \
  goto *labels[*at++ & 3]
  NEXT;
add:
  a = (int64_t)((uint64_t)a + (uint64_t)b);
  NEXT;
subtract:
  b = (int64_t)((uint64_t)b - (uint64_t)(a >> 3));
  NEXT;
twist:
  a ^= (int64_t)((uint64_t)b << 2);
  NEXT;
jump:
  at = code;
  NEXT;
}

static long double series(int n) {
  long double sum = 0, sign = 1;
  for (int i = 0; i < n; i++) {
    sum += sign / (2 * i + 1);
    sign = -sign;
  }
  return sum * 4;
}

static int ascending(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

static unsigned stacked(int n) {
  unsigned sum = 0;
  for (int i = 1; i < n; i++) {
    unsigned char *room = __builtin_alloca((size_t)(i & 63) + 1);
    memset(room, i, (size_t)(i & 63) + 1);
    sum = sum * 31 + room[i & 31 & (i & 63)];
  }
  return sum;
}

/* A leaf with many live values and a small frame: what a red zone would hold. */
static __attribute__((noinline)) uint64_t leaf(uint64_t n) {
  uint64_t a[12];
  for (int i = 0; i < 12; i++)
    a[i] = n + (uint64_t)i;
  for (uint64_t i = 0; i < n; i++)
    a[i % 12] = a[(i + 5) % 12] * 3 + a[(i + 7) % 12];
  return a[0] ^ a[5] ^ a[11];
}

int main(void) {
  static uint32_t data[3000];
  for (uint32_t i = 0; i < 3000; i++)
    data[i] = i * 2654435761u;
  printf("loops %llu\n", (unsigned long long)loops(data, 3000));
  printf("fib %d\n", fib(24));
  printf("even %d\n", even(40001));
  printf("jumps %d\n", jumps(2000));
  printf("locals %llu\n", (unsigned long long)locals(200000));
  printf("varied %ld\n", varied(4, 5L, 2.5, 7L, 9.0));
  printf("interpret %lld\n", (long long)interpret((const unsigned char *)"\0\1\2\0\1\1\2\3", 300000));
  printf("series %.18Lf\n", series(200000));
  qsort(data, 3000, sizeof *data, ascending);
  printf("sorted %u %u\n", data[0], data[1499]);
  printf("stacked %u\n", stacked(20000));
  printf("leaf %llu\n", (unsigned long long)leaf(200000));
  double root = 0;
  for (int i = 0; i < 100000; i++)
    root += sqrt(i) * sin(i);
  printf("mathematics %.12f\n", root);
  return 0;
}
