/* Bits: a sieve of Eratosthenes in a bit set (strides from 3 to thousands), population counts, queens
 * by bit masks, Gray codes, Collatz lengths. */
#include "../suite.h"

enum { LIMIT = 1 << 20 };
static uint64_t set[LIMIT / 64];

static uint64_t sieve(void) {
  memset(set, 0xAA, sizeof set);
  for (uint32_t p = 3; p * p < LIMIT; p += 2)
    if (set[p / 64] >> p % 64 & 1)
      for (uint32_t m = p * p; m < LIMIT; m += 2 * p)
        set[m / 64] &= ~((uint64_t)1 << m % 64);
  uint64_t count = 0;
  for (int i = 0; i < LIMIT / 64; i++)
    count += (uint64_t)__builtin_popcountll(set[i]);
  return count;
}

static uint64_t gaps(void) {
  uint64_t sum = 0, last = 0;
  for (uint64_t i = 0; i < LIMIT / 64; i++)
    for (uint64_t word = set[i]; word != 0; word &= word - 1) {
      uint64_t p = 64 * i + (uint64_t)__builtin_ctzll(word);
      sum += (p - last) * (p - last);
      last = p;
    }
  return sum;
}

static uint64_t queens(uint32_t all, uint32_t columns, uint32_t left, uint32_t right) {
  if (columns == all)
    return 1;
  uint64_t count = 0;
  for (uint32_t free = all & ~(columns | left | right); free != 0; free &= free - 1) {
    uint32_t bit = free & -free;
    count += queens(all, columns | bit, (left | bit) << 1, (right | bit) >> 1);
  }
  return count;
}

static uint64_t gray(uint64_t n) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < n; i++) {
    uint64_t code = i ^ i >> 1, back = code;
    for (int shift = 1; shift < 64; shift *= 2)
      back ^= back >> shift;
    sum += back ^ code;
  }
  return sum;
}

static uint64_t collatz(uint64_t below) {
  uint64_t longest = 0, at = 0;
  for (uint64_t start = 1; start < below; start++) {
    uint64_t length = 0;
    for (uint64_t n = start; n != 1; n = n & 1 ? 3 * n + 1 : n / 2)
      length++;
    if (length > longest) {
      longest = length;
      at = start;
    }
  }
  return longest << 32 | at;
}

int main(int argc, char **argv) {
  uint64_t rounds = suite_rounds(argc, argv, 340), sum = 0;
  for (uint64_t r = 0; r < rounds; r++) {
    sum = suite_mix(sum, sieve());
    sum = suite_mix(sum, gaps());
    sum = suite_mix(sum, queens((1u << (8 + r % 3)) - 1, 0, 0, 0));
    sum = suite_mix(sum, gray(300000 + r));
    sum = suite_mix(sum, collatz(20000 + r));
  }
  return suite_end(sum);
}
