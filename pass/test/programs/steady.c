/* One chain of operations, each waiting for the last: no program is steadier. */
#include <stdint.h>
#include <stdio.h>

int main(void) {
  uint64_t x = 0x9e3779b97f4a7c15u;
  for (int i = 0; i < 20 * 1000 * 1000; i++)
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
  printf("%llu\n", (unsigned long long)x);
}
