/* Many vector values live across safepoints: what the stub and the compiler must keep. Floating-point
 * results are exact (no reassociation), so every lost or mixed-up register shows. Also a changed
 * rounding mode, which belongs to the interrupted code. */
#include <fenv.h>
#include <stdint.h>
#include <stdio.h>

#if defined(__AVX512BW__)
#define BYTES 64
#elif defined(__AVX2__)
#define BYTES 32
#else
#define BYTES 16
#endif
typedef double lanes __attribute__((vector_size(BYTES)));
typedef uint64_t words __attribute__((vector_size(BYTES)));
enum { LANES = BYTES / 8 };

static __attribute__((noinline)) void churn(lanes *out, const lanes *in, int n) {
  lanes a = in[0], b = in[1], c = in[2], d = in[3], e = in[4], f = in[5], g = in[6], h = in[7];
  for (int i = 0; i < n; i++) {
    a = a * b + c;
    c = c - d * 0.5;
    e = e * 0.25 + f;
    g = g + h * a * 1e-9;
    b = b * 0.75 + e * 1e-6;
    d = d + g * 1e-7;
    f = f * 0.5 + c * 1e-5;
    h = h * 0.125 + d;
    a = a * 0.001;
    for (int j = i & 3; j > 0; j--)
      g = g * 0.999 + a;
  }
  out[0] = a, out[1] = b, out[2] = c, out[3] = d;
  out[4] = e, out[5] = f, out[6] = g, out[7] = h;
}

/* Comparisons make masks, which AVX-512 keeps in registers of their own. */
static __attribute__((noinline)) words masks(words x, int n) {
  words count = {0};
  for (int i = 0; i < n; i++) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    words big = (words)(x > 0x8000000000000000u);
    count += big & 3;
    count ^= ~big & x >> 60;
  }
  return count;
}

static __attribute__((noinline)) double upward(int n) {
#pragma STDC FENV_ACCESS ON
  volatile double sum = 0;
  fesetround(FE_UPWARD);
  for (int i = 1; i < n; i++)
    sum = sum + 1.0 / (volatile double){i};
  fesetround(FE_TONEAREST);
  return sum;
}

int main(void) {
  lanes in[8], out[8];
  words seed;
  for (int i = 0; i < 8; i++)
    for (int j = 0; j < LANES; j++)
      in[i][j] = 1.0 + i * 0.37 + j * 0.11;
  for (int j = 0; j < LANES; j++)
    seed[j] = (uint64_t)j * 77 + 1;
  churn(out, in, 300000);
  for (int i = 0; i < 8; i++)
    for (int j = 0; j < LANES; j++)
      printf("%a\n", out[i][j]);
  words counts = masks(seed, 300000);
  for (int j = 0; j < LANES; j++)
    printf("%llu\n", (unsigned long long)counts[j]);
  printf("%a\n", upward(300000));
  return 0;
}
