/* Recursion: Fibonacci, Takeuchi and Ackermann functions, towers of Hanoi, permutations, and descents
 * 20,000 calls deep. */
#include "../suite.h"

static uint64_t fibonacci(unsigned n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

static int tak(int x, int y, int z) {
  return y >= x ? z : tak(tak(x - 1, y, z), tak(y - 1, z, x), tak(z - 1, x, y));
}

static uint64_t ackermann(uint64_t m, uint64_t n) {
  if (m == 0)
    return n + 1;
  return n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}

static uint64_t pegs[3];

static void hanoi(int n, int from, int to) {
  if (n == 0)
    return;
  hanoi(n - 1, from, 3 - from - to);
  pegs[from] ^= (uint64_t)1 << n;
  pegs[to] ^= (uint64_t)1 << n;
  hanoi(n - 1, 3 - from - to, to);
}

static uint64_t permutations(unsigned char *v, int n) {
  if (n == 1)
    return suite_mix(v[0], v[1]);
  uint64_t sum = 0;
  for (int i = 0; i < n; i++) {
    unsigned char t = v[i];
    v[i] = v[n - 1];
    v[n - 1] = t;
    sum += permutations(v, n - 1);
    v[n - 1] = v[i];
    v[i] = t;
  }
  return sum;
}

/* Two functions that call each other, with work behind the call, so no tail calls. */
static uint64_t odd(uint64_t n, uint64_t seed);

static uint64_t even(uint64_t n, uint64_t seed) {
  return n == 0 ? seed : suite_mix(odd(n - 1, seed * 3), n);
}

static uint64_t odd(uint64_t n, uint64_t seed) {
  return n == 0 ? ~seed : even(n - 1, seed + 7) ^ seed >> 3;
}

int main(int argc, char **argv) {
  uint64_t rounds = suite_rounds(argc, argv, 800), sum = 0;
  for (uint64_t r = 0; r < rounds; r++) {
    unsigned char items[] = {1, 2, 3, 4, 5, 6, 7, 8};
    sum = suite_mix(sum, fibonacci(24 + r % 3));
    sum = suite_mix(sum, (uint64_t)tak(16 + (int)(r & 1), 8, 3));
    sum = suite_mix(sum, ackermann(2, 60 + r % 9));
    pegs[0] = 0xFFFF;
    pegs[1] = pegs[2] = 0;
    hanoi(15, 0, 2);
    sum = suite_mix(sum, pegs[2]);
    sum = suite_mix(sum, permutations(items, 8));
    for (int repeat = 0; repeat < 20; repeat++)
      sum = suite_mix(sum, even(20000, sum));
  }
  return suite_end(sum);
}
