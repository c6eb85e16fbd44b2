/* Reductions that vectorise, over arrays of 100 to two million elements: sums, dot products, extremes,
 * counts, differences; and one chain of dependent floating-point additions. Flags: -O3 */
#include "../suite.h"

enum { MAX = 2000000 };
static int32_t *a, *b;
static uint8_t *bytes;
static double *d;

static uint64_t total(size_t n) {
  uint64_t sum = 0;
  for (size_t i = 0; i < n; i++)
    sum += (uint64_t)(int64_t)a[i];
  return sum;
}

static uint64_t dot(size_t n) {
  uint32_t sum = 0;
  for (size_t i = 0; i < n; i++)
    sum += (uint32_t)a[i] * (uint32_t)b[i];
  return sum;
}

static uint64_t extremes(size_t n) {
  int32_t least = INT32_MAX, most = INT32_MIN;
  for (size_t i = 0; i < n; i++) {
    least = a[i] < least ? a[i] : least;
    most = a[i] > most ? a[i] : most;
  }
  return (uint64_t)(uint32_t)least << 32 | (uint32_t)most;
}

static uint64_t count(size_t n) {
  uint64_t c = 0;
  for (size_t i = 0; i < n; i++)
    c += bytes[i] > 99;
  return c;
}

static uint64_t differences(size_t n) {
  uint64_t sum = 0;
  for (size_t i = 1; i < n; i++)
    sum += (uint64_t)abs(bytes[i] - bytes[i - 1]);
  return sum;
}

static uint64_t ordered(size_t n) {
  double sum = 0.0;
  for (size_t i = 0; i < n; i++)
    sum += d[i];
  return suite_mix_double(0, sum);
}

static uint64_t scale(size_t n) {
  for (size_t i = 0; i < n; i++)
    d[i] = d[i] * 0.999 + 0.001 * b[i];
  return suite_mix_double(0, d[n / 2]);
}

int main(int argc, char **argv) {
  static const size_t sizes[] = {100, 5000, 80000, MAX};
  uint64_t (*const ways[])(size_t) = {total, dot, extremes, count, differences, ordered, scale};
  uint64_t rounds = suite_rounds(argc, argv, 50), sum = 0;
  a = suite_alloc(MAX * sizeof *a);
  b = suite_alloc(MAX * sizeof *b);
  bytes = suite_alloc(MAX);
  d = suite_alloc(MAX * sizeof *d);
  for (size_t i = 0; i < MAX; i++) {
    a[i] = (int32_t)(suite_random() >> 40);
    b[i] = (int32_t)(suite_random() >> 44);
    bytes[i] = (uint8_t)suite_random();
    d[i] = suite_unit();
  }
  for (uint64_t r = 0; r < rounds; r++)
    for (unsigned s = 0; s < 4; s++)
      for (size_t repeat = 0; repeat < MAX / sizes[s]; repeat++)
        for (unsigned w = 0; w < sizeof ways / sizeof *ways; w++)
          sum = suite_mix(sum, ways[w](sizes[s] - repeat % 3));
  return suite_end(sum);
}
