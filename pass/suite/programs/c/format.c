/* Numbers to text and back by the C library: snprintf, strtod, strtoul, and tokens by strcspn: short
 * stretches of code between calls that last a tenth of a microsecond to a few. */
#include "../suite.h"

static uint64_t records(char *line, size_t size, uint64_t r) {
  double x = suite_unit() * 1000.0;
  unsigned long n = (unsigned long)suite_random() >> 20;
  int length =
      snprintf(line, size, "%llu,%.6f,%lx,%s", (unsigned long long)r, x, n, r % 2 ? "odd" : "even");
  uint64_t sum = (uint64_t)length;
  char *end = line;
  sum = suite_mix(sum, strtoull(end, &end, 10));
  sum = suite_mix_double(sum, strtod(end + 1, &end));
  sum = suite_mix(sum, strtoul(end + 1, &end, 16));
  return suite_mix(sum, (uint64_t)strcmp(end, ",odd") & 1);
}

static uint64_t tokens(const char *text) {
  uint64_t sum = 0;
  while (*text != 0) {
    size_t n = strcspn(text, " ,;");
    for (size_t i = 0; i < n; i++)
      sum = sum * 33 + (unsigned char)text[i];
    text += n + (text[n] != 0);
  }
  return sum;
}

int main(int argc, char **argv) {
  static const char *const texts[] = {
      "to each its own queue; each queue its turn", "a,b,c,d,e,f,g", "one",
      "requests that take microseconds, among others that take milliseconds; cut the long ones"};
  uint64_t rounds = suite_rounds(argc, argv, 1900000), sum = 0;
  char line[128];
  for (uint64_t r = 0; r < rounds; r++) {
    sum = suite_mix(sum, records(line, sizeof line, r));
    sum = suite_mix(sum, tokens(texts[r % 4]));
  }
  return suite_end(sum);
}
