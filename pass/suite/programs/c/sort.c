/* Sorting: quicksort with insertion sort below 16, heapsort, radix sort, and the C library's qsort,
 * which calls back. */
#include "../suite.h"

enum { MAX = 200000 };
static uint32_t a[MAX], spare[MAX];

static void insertion(uint32_t *v, size_t n) {
  for (size_t i = 1; i < n; i++) {
    uint32_t x = v[i];
    size_t j = i;
    for (; j > 0 && v[j - 1] > x; j--)
      v[j] = v[j - 1];
    v[j] = x;
  }
}

static void quick(uint32_t *v, size_t n) {
  while (n > 16) {
    uint32_t x = v[0], y = v[n / 2], z = v[n - 1];
    uint32_t pivot = x < y ? (y < z ? y : x < z ? z : x) : (x < z ? x : y < z ? z : y);
    size_t i = 0, j = n - 1;
    for (;;) {
      while (v[i] < pivot)
        i++;
      while (v[j] > pivot)
        j--;
      if (i >= j)
        break;
      uint32_t t = v[i];
      v[i++] = v[j];
      v[j--] = t;
    }
    quick(v + j + 1, n - j - 1);
    n = j + 1;
  }
  insertion(v, n);
}

static void sift(uint32_t *v, size_t at, size_t n) {
  uint32_t x = v[at];
  for (size_t child; (child = 2 * at + 1) < n; at = child) {
    child += child + 1 < n && v[child + 1] > v[child];
    if (v[child] <= x)
      break;
    v[at] = v[child];
  }
  v[at] = x;
}

static void heap(uint32_t *v, size_t n) {
  for (size_t i = n / 2; i-- > 0;)
    sift(v, i, n);
  for (size_t end = n; end-- > 1;) {
    uint32_t t = v[0];
    v[0] = v[end];
    v[end] = t;
    sift(v, 0, end);
  }
}

static void radix(uint32_t *v, size_t n) {
  uint32_t *from = v, *to = spare;
  for (int shift = 0; shift < 32; shift += 8) {
    size_t count[257] = {0};
    for (size_t i = 0; i < n; i++)
      count[(from[i] >> shift & 255) + 1]++;
    for (int b = 0; b < 256; b++)
      count[b + 1] += count[b];
    for (size_t i = 0; i < n; i++)
      to[count[from[i] >> shift & 255]++] = from[i];
    uint32_t *t = from;
    from = to;
    to = t;
  }
}

static int compare(const void *x, const void *y) {
  uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
  return (a > b) - (a < b);
}

static void library(uint32_t *v, size_t n) { qsort(v, n, sizeof *v, compare); }

int main(int argc, char **argv) {
  static const size_t sizes[] = {8, 50, 1000, 20000, MAX};
  void (*const sorts[])(uint32_t *, size_t) = {quick, heap, radix, library};
  uint64_t rounds = suite_rounds(argc, argv, 7), sum = 0;
  for (uint64_t r = 0; r < rounds; r++)
    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++)
      for (unsigned w = 0; w < sizeof sorts / sizeof *sorts; w++) {
        size_t n = sizes[s], repeats = sorts[w] == radix && n < 1000 ? 20000 / n : MAX / n;
        for (size_t repeat = 0; repeat < repeats; repeat++) {
          for (size_t i = 0; i < n; i++)
            a[i] = (uint32_t)suite_random();
          sorts[w](a, n);
          sum = suite_mix(sum, (uint64_t)a[n / 3] << 32 | a[n - 1]);
        }
      }
  return suite_end(sum);
}
