/* Blocked LU decomposition without pivoting: blocks of 16 × 16, so all inner loops are rows of at
 * most 16 elements. */
#include "../suite.h"

enum { B = 16, BLOCKS = 20, N = B * BLOCKS };

static double *block(double *a, int i, int j) { return a + ((size_t)i * BLOCKS + j) * B * B; }

/* a := LU of a. */
static void factor(double *a) {
  for (int k = 0; k < B; k++)
    for (int i = k + 1; i < B; i++) {
      double f = a[i * B + k] /= a[k * B + k];
      for (int j = k + 1; j < B; j++)
        a[i * B + j] -= f * a[k * B + j];
    }
}

/* a := inverse of d's lower triangle, times a. */
static void solve_row(const double *d, double *a) {
  for (int k = 0; k < B; k++)
    for (int i = k + 1; i < B; i++) {
      double f = d[i * B + k];
      for (int j = 0; j < B; j++)
        a[i * B + j] -= f * a[k * B + j];
    }
}

/* a := a, times the inverse of d's upper triangle. */
static void solve_column(const double *d, double *a) {
  for (int i = 0; i < B; i++)
    for (int k = 0; k < B; k++) {
      double f = a[i * B + k] /= d[k * B + k];
      for (int j = k + 1; j < B; j++)
        a[i * B + j] -= f * d[k * B + j];
    }
}

static void update(double *a, const double *l, const double *u) {
  for (int i = 0; i < B; i++)
    for (int k = 0; k < B; k++) {
      double f = l[i * B + k];
      for (int j = 0; j < B; j++)
        a[i * B + j] -= f * u[k * B + j];
    }
}

static void lu(double *a) {
  for (int k = 0; k < BLOCKS; k++) {
    factor(block(a, k, k));
    for (int j = k + 1; j < BLOCKS; j++)
      solve_row(block(a, k, k), block(a, k, j));
    for (int i = k + 1; i < BLOCKS; i++)
      solve_column(block(a, k, k), block(a, i, k));
    for (int i = k + 1; i < BLOCKS; i++)
      for (int j = k + 1; j < BLOCKS; j++)
        update(block(a, i, j), block(a, i, k), block(a, k, j));
  }
}

int main(int argc, char **argv) {
  uint64_t rounds = suite_rounds(argc, argv, 460), sum = 0;
  double *a = suite_alloc(sizeof(double) * N * N);
  for (uint64_t r = 0; r < rounds; r++) {
    for (int i = 0; i < N * N; i++)
      a[i] = suite_unit();
    for (int i = 0; i < BLOCKS; i++)
      for (int d = 0; d < B; d++)
        block(a, i, i)[d * B + d] += N;
    lu(a);
    for (int i = 0; i < N * N; i += 7)
      sum = suite_mix_double(sum, a[i]);
  }
  free(a);
  return suite_end(sum);
}
