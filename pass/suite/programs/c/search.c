/* String search: naive, Horspool, shift-or, and the library's memchr and strstr, for needles of 2 to
 * 24 letters in 64 KiB of words. Early exits throughout. */
#include "../suite.h"

enum { TEXT = 1 << 16 };
static char text[TEXT + 1];

static void write_text(void) {
  static const char letters[] = "eeeeetttaaoooiinnsshhrdlu";
  for (int i = 0; i < TEXT;) {
    int word = 1 + (int)suite_below(9);
    for (int j = 0; j < word && i < TEXT; j++)
      text[i++] = letters[suite_below(sizeof letters - 1)];
    if (i < TEXT)
      text[i++] = ' ';
  }
}

static size_t naive(const char *needle, size_t m, size_t from) {
  for (size_t i = from; i + m <= TEXT; i++) {
    size_t j = 0;
    while (j < m && text[i + j] == needle[j])
      j++;
    if (j == m)
      return i;
  }
  return TEXT;
}

static size_t horspool(const char *needle, size_t m, size_t from) {
  size_t skip[256];
  for (int i = 0; i < 256; i++)
    skip[i] = m;
  for (size_t j = 0; j + 1 < m; j++)
    skip[(unsigned char)needle[j]] = m - 1 - j;
  for (size_t i = from; i + m <= TEXT; i += skip[(unsigned char)text[i + m - 1]])
    if (text[i + m - 1] == needle[m - 1] && memcmp(text + i, needle, m) == 0)
      return i;
  return TEXT;
}

static size_t shift_or(const char *needle, size_t m, size_t from) {
  uint64_t mask[256], state = ~(uint64_t)0;
  memset(mask, 255, sizeof mask);
  for (size_t j = 0; j < m; j++)
    mask[(unsigned char)needle[j]] &= ~((uint64_t)1 << j);
  for (size_t i = from; i < TEXT; i++) {
    state = state << 1 | mask[(unsigned char)text[i]];
    if ((state & (uint64_t)1 << (m - 1)) == 0)
      return i + 1 - m;
  }
  return TEXT;
}

static size_t by_memchr(const char *needle, size_t m, size_t from) {
  const char *at = text + from;
  while ((at = memchr(at, needle[0], (size_t)(text + TEXT - at))) != NULL) {
    if ((size_t)(text + TEXT - at) >= m && memcmp(at, needle, m) == 0)
      return (size_t)(at - text);
    at++;
  }
  return TEXT;
}

static size_t by_strstr(const char *needle, size_t m, size_t from) {
  (void)m;
  const char *found = strstr(text + from, needle);
  return found ? (size_t)(found - text) : TEXT;
}

int main(int argc, char **argv) {
  size_t (*const ways[])(const char *, size_t, size_t) = {naive, horspool, shift_or, by_memchr,
                                                          by_strstr};
  uint64_t rounds = suite_rounds(argc, argv, 4000), sum = 0;
  write_text();
  for (uint64_t r = 0; r < rounds; r++) {
    char needle[32] = {0};
    size_t m = 2 + suite_below(23), from = suite_below(TEXT - m);
    memcpy(needle, text + from, m);
    if (r % 3 == 0)
      needle[m - 1] = '?';
    for (unsigned w = 0; w < sizeof ways / sizeof *ways; w++) {
      uint64_t count = 0;
      size_t at = ways[w](needle, m, 0);
      for (; at < TEXT && count < 200; at = ways[w](needle, m, at + 1))
        count++;
      sum = suite_mix(sum, count << 32 | at);
    }
  }
  return suite_end(sum);
}
