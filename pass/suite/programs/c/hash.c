/* Hash functions over keys of 1 byte to 64 KiB: FNV-1a (a byte at a time), CRC-32 by table, SipHash
 * (rounds of rotations), Adler-32, and a word-at-a-time multiply hash. */
#include "../suite.h"

enum { BYTES = 1 << 16 };
static unsigned char data[BYTES + 8];
static uint32_t crc_table[256];

static uint64_t fnv(const unsigned char *p, size_t n) {
  uint64_t h = 0xcbf29ce484222325u;
  for (size_t i = 0; i < n; i++)
    h = (h ^ p[i]) * 0x100000001b3u;
  return h;
}

static uint64_t crc(const unsigned char *p, size_t n) {
  uint32_t c = ~0u;
  for (size_t i = 0; i < n; i++)
    c = crc_table[(c ^ p[i]) & 255] ^ c >> 8;
  return ~c;
}

static uint64_t adler(const unsigned char *p, size_t n) {
  uint32_t a = 1, b = 0;
  while (n > 0) {
    size_t part = n < 5552 ? n : 5552;
    n -= part;
    while (part-- > 0) {
      a += *p++;
      b += a;
    }
    a %= 65521;
    b %= 65521;
  }
  return b << 16 | a;
}

static inline uint64_t rotate(uint64_t x, int by) { return x << by | x >> (64 - by); }

static void sip_round(uint64_t v[4]) {
  v[0] += v[1], v[1] = rotate(v[1], 13) ^ v[0], v[0] = rotate(v[0], 32);
  v[2] += v[3], v[3] = rotate(v[3], 16) ^ v[2];
  v[0] += v[3], v[3] = rotate(v[3], 21) ^ v[0];
  v[2] += v[1], v[1] = rotate(v[1], 17) ^ v[2], v[2] = rotate(v[2], 32);
}

static uint64_t sip(const unsigned char *p, size_t n) {
  uint64_t v[4] = {0x736f6d6570736575u, 0x646f72616e646f6du, 0x6c7967656e657261u,
                   0x7465646279746573u};
  uint64_t word, last = (uint64_t)n << 56;
  for (size_t i = 0; i + 8 <= n; i += 8) {
    memcpy(&word, p + i, 8);
    v[3] ^= word;
    sip_round(v);
    sip_round(v);
    v[0] ^= word;
  }
  for (size_t i = n & ~(size_t)7; i < n; i++)
    last |= (uint64_t)p[i] << 8 * (i & 7);
  v[3] ^= last;
  v[2] ^= 255;
  for (int i = 0; i < 4; i++)
    sip_round(v);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static uint64_t words(const unsigned char *p, size_t n) {
  uint64_t h = n;
  for (; n >= 8; n -= 8, p += 8) {
    uint64_t word;
    memcpy(&word, p, 8);
    h = suite_mix(h, word);
  }
  while (n-- > 0)
    h = h * 31 + *p++;
  return h;
}

int main(int argc, char **argv) {
  static const size_t lengths[] = {1, 3, 8, 15, 40, 100, 1000, 8000, BYTES};
  uint64_t (*const functions[])(const unsigned char *, size_t) = {fnv, crc, adler, sip, words};
  uint64_t rounds = suite_rounds(argc, argv, 1000), sum = 0;
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; bit++)
      c = c & 1 ? 0xEDB88320u ^ c >> 1 : c >> 1;
    crc_table[i] = c;
  }
  for (int i = 0; i < BYTES; i++)
    data[i] = (unsigned char)suite_random();
  for (uint64_t r = 0; r < rounds; r++)
    for (unsigned f = 0; f < sizeof functions / sizeof *functions; f++)
      for (unsigned l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        size_t length = lengths[l], keys = 1 + 12000 / length;
        for (size_t k = 0; k < keys; k++) {
          size_t at = (k * 67 + r) % (BYTES - length + 1);
          sum = suite_mix(sum, functions[f](data + at, length));
        }
      }
  return suite_end(sum);
}
