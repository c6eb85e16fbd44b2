/* Five-point Jacobi relaxation on grids of three sizes: regular loops over rows of 14, 126 and 1,022
 * doubles, which the compiler vectorises. Flags: -O3 */
#include "../suite.h"

static void sweep(int n, const double *restrict from, double *restrict to) {
  for (int i = 1; i < n - 1; i++)
    for (int j = 1; j < n - 1; j++)
      to[i * n + j] = 0.2 * (from[i * n + j] + from[(i - 1) * n + j] + from[(i + 1) * n + j] +
                             from[i * n + j - 1] + from[i * n + j + 1]);
}

static double residual(int n, const double *a, const double *b) {
  double worst = 0.0;
  for (int i = 0; i < n * n; i++) {
    double d = fabs(a[i] - b[i]);
    worst = d > worst ? d : worst;
  }
  return worst;
}

static uint64_t relax(int n, uint64_t sweeps) {
  double *a = suite_alloc(sizeof(double) * n * n), *b = suite_alloc(sizeof(double) * n * n);
  for (int i = 0; i < n * n; i++)
    a[i] = b[i] = suite_unit();
  uint64_t sum = 0;
  for (uint64_t s = 0; s < sweeps; s++) {
    sweep(n, a, b);
    sweep(n, b, a);
    if (s % 16 == 0)
      sum = suite_mix_double(sum, residual(n, a, b));
  }
  for (int i = 0; i < n * n; i++)
    sum = suite_mix_double(sum, a[i]);
  free(a);
  free(b);
  return sum;
}

int main(int argc, char **argv) {
  uint64_t rounds = suite_rounds(argc, argv, 300);
  uint64_t sum = relax(1024, rounds);
  sum = suite_mix(sum, relax(128, rounds * 64));
  return suite_end(suite_mix(sum, relax(16, rounds * 4096)));
}
