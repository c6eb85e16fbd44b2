/* Zstandard: a fast, a middling and a thorough level in turn, each result read back four times. */
#include "outside.h"

#include <zstd.h>

enum { BYTES = 1 << 19, ROOM = BYTES + BYTES / 128 + 1024, BACK = 4 };
static unsigned char input[BYTES], packed[ROOM], output[BYTES];

int main(int argc, char **argv) {
  static const int levels[] = {1, 5, 9};
  uint64_t rounds = suite_rounds(argc, argv, 210), sum = 0;
  write_text(input, BYTES);
  for (uint64_t r = 0; r < rounds; r++) {
    input[suite_below(BYTES)] ^= 1;
    size_t length = ZSTD_compress(packed, ROOM, input, BYTES, levels[r % 3]);
    expect(!ZSTD_isError(length), "zstd does not compress");
    for (int i = 0; i < BACK; i++)
      expect(ZSTD_decompress(output, BYTES, packed, length) == BYTES, "zstd does not decompress");
    expect(memcmp(input, output, BYTES) == 0, "what was packed unpacks to something else");
    sum = mix_bytes(sum, packed, length);
  }
  return suite_end(sum);
}
