/* Long library calls are done in pieces: what comes of them must be the same, at every alignment,
 * around every length at which something changes, up to a page that cannot be read. With an argument:
 * copies of 64 MiB, and nothing else. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SIZE = 1 << 18, COPIED = 64 << 20 };
static unsigned char *from, *to;
static uint64_t sum = 88172645463325252u;
/* The compiler does not know it. */
static volatile size_t zero;

static const size_t lengths[] = {0,    1,    63,   255,  256,  257,   1023,  1024,  1025,
                                 4095, 4096, 4097, 8191, 8192, 8193, 12345, 70000, 150000};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static uint64_t next(void) {
  sum ^= sum >> 12;
  sum ^= sum << 25;
  sum ^= sum >> 27;
  return sum * 0x2545F4914F6CDD1Du;
}

static void mix(uint64_t value) {
  sum = (sum ^ value) * 0x9E3779B97F4A7C15u + 1;
}

static void mix_buffer(const unsigned char *p, size_t n) {
  uint64_t h = n;
  for (size_t i = 0; i + 8 <= n; i += 8) {
    uint64_t word;
    memcpy(&word, p + i, 8);
    h = (h ^ word) * 0x9E3779B97F4A7C15u;
  }
  mix(h);
}

static void fill(void) {
  for (size_t i = 0; i < SIZE; i++)
    from[i] = (unsigned char)(next() >> 56) | 1;
}

/* The end of readable memory: `n` bytes of it. */
static unsigned char *at_the_edge(size_t n) {
  size_t page = 4096, whole = (n + page - 1) / page * page;
  unsigned char *p =
      mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED || mprotect(p + whole, page, PROT_NONE) != 0)
    exit(1);
  return p + whole - n;
}

static void copies(void) {
  for (size_t l = 0; l < LENGTHS; l++)
    for (size_t alignment = 0; alignment < 64; alignment += 1 + (lengths[l] > 10000) * 6) {
      size_t n = lengths[l] + zero, other = (alignment * 7 + 3) % 64;
      if (memcpy(to + alignment, from + other, n) != to + alignment)
        exit(1);
      mix_buffer(to, n + 128);
      if (memset(to + other, (int)(alignment * 5 + 256), n) != to + other)
        exit(1);
      mix_buffer(to, n + 128);
    }
}

static void moves(void) {
  static const long distances[] = {0, 1, 7, 64, 511, 512, 4096, 33000, 90000};
  for (size_t l = 0; l < LENGTHS; l++)
    for (size_t d = 0; d < sizeof distances / sizeof *distances; d++)
      for (int up = 0; up < 2; up++) {
        size_t n = lengths[l] + zero, low = next() % 64, high = low + (size_t)distances[d];
        memcpy(to, from, SIZE);
        unsigned char *target = to + (up ? high : low);
        if (memmove(target, to + (up ? low : high), n) != target)
          exit(1);
        mix_buffer(to, SIZE);
      }
}

static int sign(int x) { return (x > 0) - (x < 0); }

static void comparisons(void) {
  for (size_t l = 0; l < LENGTHS; l++)
    for (size_t repeat = 0; repeat < 40; repeat++) {
      size_t n = lengths[l] + zero, at = n ? next() % n : 0, a = next() % 64, b = next() % 64;
      memcpy(to + a, from + b, n);
      mix((uint64_t)sign(memcmp(to + a, from + b, n)));
      mix(memcmp(to + a, from + b, n) == 0);
      to[a + at] ^= (unsigned char)(repeat + 1);
      mix((uint64_t)sign(memcmp(to + a, from + b, n)));
      mix((uint64_t)sign(memcmp(from + b, to + a, n)));
      mix(memcmp(to + a, from + b, n) == 0);
    }
}

static uint64_t place(const void *found, const void *in) {
  return found != NULL ? (uint64_t)((const char *)found - (const char *)in) : UINT64_MAX;
}

static void searches(void) {
  for (size_t l = 1; l < LENGTHS; l++) {
    size_t n = lengths[l] + zero;
    unsigned char *edge = at_the_edge(n);
    char *text = (char *)edge;
    memcpy(edge, from, n);
    for (size_t i = 0; i < n; i++)
      edge[i] = edge[i] == 200 || edge[i] == 201 ? 1 : edge[i];
    mix(place(memchr(edge, 200, n), edge));
    edge[n - 1] = 0;
    mix(strlen(text));
    mix(place(strchr(text, 200), text));
    mix(place(strchr(text, 0), text));
    for (size_t repeat = 0; repeat < 60; repeat++) {
      size_t at = next() % n;
      unsigned char was = edge[at], was_next = edge[n - 1 - (at + 1 < n)];
      edge[at] = 200;
      mix(place(memchr(edge + at / 3, 200, n - at / 3), edge));
      mix(place(memchr(edge + at / 2, 200, SIZE_MAX - (uintptr_t)edge), edge));
      edge[n - 1] = 0;
      mix(place(strchr(text + at / 2, 200 - 256), text));
      if (at + 1 < n)
        edge[at + 1] = 201;
      edge[n - 1] = 0;
      edge[at] = 0;
      mix(strlen(text));
      mix(place(strchr(text, 255), text));
      edge[at] = was;
      if (at + 1 < n)
        edge[at + 1] = was_next | 1;
      edge[n - 1] = 0;
    }
  }
}

/* The library's own: what is called by a pointer goes nowhere else. */
static char *(*volatile library_strchr)(const char *, int) = strchr;
static size_t (*volatile library_strlen)(const char *) = strlen;
static void *(*volatile library_memchr)(const void *, int, size_t) = memchr;
static int (*volatile library_memcmp)(const void *, const void *, size_t) = memcmp;

static void same(int same, const char *what, const char *text, const char *needle) {
  if (same)
    return;
  printf("%s: not the library's: text of %zu bytes at %p, needle of %zu\n", what,
         library_strlen(text), (const void *)text, library_strlen(needle));
  exit(1);
}

/* Text of few letters, which is full of beginnings of the needle, and so is the needle itself. */
static void write_text(char *p, size_t n, unsigned letters) {
  for (size_t i = 0; i < n; i++)
    p[i] = (char)('a' + (next() >> 40) % letters);
  p[n] = 0;
}

/* A piece of the text, or one that was, or anything. */
static size_t write_needle(char *p, const char *text, size_t n, unsigned letters) {
  size_t most = next() % 8 == 0 ? 600 : next() % 2 == 0 ? 40 : 6, m = (next() >> 20) % (most + 1);
  write_text(p, m, letters);
  if (m <= n && next() % 4 != 0)
    memcpy(p, text + (next() >> 20) % (n - m + 1), m);
  if (m != 0 && next() % 2 == 0)
    p[(next() >> 20) % m] = (char)('a' + next() % (letters + 1));
  return m;
}

/* Random texts, up to where memory ends, or not. */
static void beside_the_library(void) {
  enum { LONGEST = 60000, ROOM = 65536 };
  char *text_end = (char *)at_the_edge(ROOM) + ROOM, *needle_end = (char *)at_the_edge(4096) + 4096;
  char *other = (char *)to;
  for (int round = 0; round < 6000; round++) {
    size_t n = (next() >> 20) % (round % 50 == 0 ? LONGEST : round % 2 == 0 ? 3000 : 200);
    unsigned letters = 1 + (unsigned)(next() % 4) * (unsigned)(next() % 8);
    char needle[601], *text = text_end - n - 1 - (round % 3 == 0 ? next() % 5000 : 0);
    write_text(text, n, letters);
    size_t m = write_needle(needle, text, n, letters);
    char *at = needle_end - m - 1 - (round % 5 == 0 ? next() % 3000 : 0);
    memcpy(at, needle, m + 1);
    int byte = at[0];
    same(strchr(text, byte) == library_strchr(text, byte), "strchr", text, at);
    same(memchr(text, byte, n + 1) == library_memchr(text, byte, n + 1), "memchr", text, at);
    same(strlen(text) == library_strlen(text), "strlen", text, at);
    memcpy(other, text, n + 1);
    if (next() % 2 == 0)
      other[(next() >> 20) % (n + 1)] ^= (char)(next() % 2);
    same((memcmp(other, text, n + 1) == 0) == (library_memcmp(other, text, n + 1) == 0), "memcmp",
         text, at);
  }
}

/* Nothing is faulted in later: the kernel's time is not a copy's. */
static unsigned char *allocate(size_t n) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
  void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (p == MAP_FAILED)
    exit(1);
  return p;
}

int main(int argc, char **argv) {
  (void)argv;
  if (argc > 1) {
    from = allocate(COPIED);
    to = allocate(COPIED);
    for (int i = 0; i < 4; i++) {
      from[i] = 7;
      memcpy(to, from, COPIED + zero);
    }
    printf("%d\n", to[3]);
    return 0;
  }
  from = allocate(SIZE);
  to = allocate(SIZE);
  fill();
  copies();
  printf("copies %016llx\n", (unsigned long long)sum);
  moves();
  printf("moves %016llx\n", (unsigned long long)sum);
  comparisons();
  printf("comparisons %016llx\n", (unsigned long long)sum);
  searches();
  printf("searches %016llx\n", (unsigned long long)sum);
  beside_the_library();
  printf("beside %016llx\n", (unsigned long long)sum);
  return 0;
}
