/* Matrix products in single precision: odd sizes from 3 to 250, three loop orders. Flags: -O3 */
#include "../suite.h"

enum { MAX = 250 };
static float a[MAX * MAX], b[MAX * MAX], c[MAX * MAX];

static void by_rows(int n) {
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++)
      c[i * n + j] = 0.0f;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++)
        c[i * n + j] += a[i * n + k] * b[k * n + j];
  }
}

/* The second factor transposed: dot products, whose order of additions the compiler keeps. */
static void by_dots(int n) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      float dot = 0.0f;
      for (int k = 0; k < n; k++)
        dot += a[i * n + k] * b[j * n + k];
      c[i * n + j] = dot;
    }
}

static void by_tiles(int n) {
  enum { T = 32 };
  memset(c, 0, sizeof(float) * n * n);
  for (int kk = 0; kk < n; kk += T)
    for (int jj = 0; jj < n; jj += T) {
      int k_end = kk + T < n ? kk + T : n, j_end = jj + T < n ? jj + T : n;
      for (int i = 0; i < n; i++)
        for (int k = kk; k < k_end; k++) {
          float f = a[i * n + k];
          for (int j = jj; j < j_end; j++)
            c[i * n + j] += f * b[k * n + j];
        }
    }
}

static uint64_t digest(uint64_t sum, int n) {
  for (int i = 0; i < n * n; i += 3)
    sum = suite_mix_double(sum, c[i]);
  return sum;
}

int main(int argc, char **argv) {
  static const struct {
    int n, repeats;
  } sizes[] = {{3, 4000}, {10, 800}, {31, 40}, {100, 4}, {MAX, 1}};
  void (*const orders[])(int) = {by_rows, by_dots, by_tiles};
  uint64_t rounds = suite_rounds(argc, argv, 60), sum = 0;
  for (int i = 0; i < MAX * MAX; i++) {
    a[i] = (float)suite_unit();
    b[i] = (float)suite_unit();
  }
  for (uint64_t r = 0; r < rounds; r++)
    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++)
      for (unsigned o = 0; o < 3; o++) {
        for (int t = 0; t < sizes[s].repeats; t++) {
          orders[o](sizes[s].n);
          a[t] = c[t % 9] * 0x1p-10f;
        }
        sum = digest(sum, sizes[s].n);
      }
  return suite_end(sum);
}
