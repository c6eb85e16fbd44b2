/* The fast Fourier transform, radix 2, iterative: inner loops of 1, 2, 4 … trips; sines and cosines
 * from the C library; and a direct transform for small sizes. */
#include "../suite.h"

enum { MAX = 1 << 14 };
static double re[MAX], im[MAX];

static void reorder(unsigned n) {
  for (unsigned i = 1, j = 0; i < n; i++) {
    unsigned bit = n >> 1;
    for (; j & bit; bit >>= 1)
      j ^= bit;
    j ^= bit;
    if (i < j) {
      double t = re[i];
      re[i] = re[j];
      re[j] = t;
      t = im[i];
      im[i] = im[j];
      im[j] = t;
    }
  }
}

static void fast(unsigned n, double direction) {
  reorder(n);
  for (unsigned half = 1; half < n; half *= 2)
    for (unsigned k = 0; k < half; k++) {
      double angle = direction * 3.14159265358979323846 * k / half, c = cos(angle), s = sin(angle);
      for (unsigned i = k; i < n; i += 2 * half) {
        double x = re[i + half] * c - im[i + half] * s, y = re[i + half] * s + im[i + half] * c;
        re[i + half] = re[i] - x;
        im[i + half] = im[i] - y;
        re[i] += x;
        im[i] += y;
      }
    }
}

static double direct(unsigned n, unsigned frequency) {
  double x = 0.0, y = 0.0;
  for (unsigned i = 0; i < n; i++) {
    double angle = 6.28318530717958647692 * frequency * i / n;
    x += re[i] * cos(angle);
    y += re[i] * sin(angle);
  }
  return sqrt(x * x + y * y);
}

int main(int argc, char **argv) {
  uint64_t rounds = suite_rounds(argc, argv, 200), sum = 0;
  for (uint64_t r = 0; r < rounds; r++)
    for (unsigned n = 4; n <= MAX; n *= 4) {
      unsigned repeats = n < 1024 ? 1024 / n : 1;
      for (unsigned t = 0; t < repeats; t++) {
        for (unsigned i = 0; i < n; i++) {
          re[i] = suite_unit();
          im[i] = 0.0;
        }
        if (n <= 64)
          sum = suite_mix_double(sum, direct(n, 1 + t % 3));
        fast(n, -1.0);
        re[n / 3] *= 0.5;
        fast(n, 1.0);
        sum = suite_mix_double(sum, re[n / 2] / n);
      }
    }
  return suite_end(sum);
}
