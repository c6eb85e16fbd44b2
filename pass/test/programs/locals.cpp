// Thread-local variables that are not held: named in each round of a loop, and by std::call_once. Their
// addresses are the same in all rounds, so the optimiser takes them before the loop.
#include <cstdio>
#include <mutex>

thread_local unsigned current;
thread_local struct { unsigned rounds, last; } seen;

struct Lazy {
  std::once_flag once;
  unsigned value = 0;
  unsigned get(unsigned n) {
    std::call_once(once, [this, n] { value = n * n; });
    return value;
  }
};

static unsigned steps(unsigned x) {
  unsigned n = 0;
  while (x != 1) {
    x = x & 1 ? 3 * x + 1 : x / 2;
    n++;
  }
  return n;
}

int main() {
  static unsigned all[40000];
  unsigned sum = 0;
  for (unsigned i = 1; i < 40000; i++) {
    Lazy lazy;
    current = i;
    sum += (all[i] = steps(i)) + lazy.get(i);
    seen.rounds++;
    seen.last = current;
  }
  std::printf("%u %u %u\n", sum, seen.rounds, seen.last);
}
