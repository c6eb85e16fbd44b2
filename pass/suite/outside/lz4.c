/* LZ4: the fast compressor and the thorough one, and what reads both back: short copies in a loop
 * that has nothing else to do. */
#include "outside.h"

#include <lz4.h>
#include <lz4hc.h>

enum { BYTES = 1 << 19, ROOM = LZ4_COMPRESSBOUND(BYTES), LEVEL = 4, BACK = 6 };
static char input[BYTES], packed[ROOM], output[BYTES];

static uint64_t read_back(uint64_t sum, int length) {
  expect(length > 0, "lz4 does not compress");
  for (int i = 0; i < BACK; i++)
    expect(LZ4_decompress_safe(packed, output, length, BYTES) == BYTES, "lz4 does not decompress");
  expect(memcmp(input, output, BYTES) == 0, "what was packed unpacks to something else");
  return mix_bytes(sum, packed, (size_t)length);
}

int main(int argc, char **argv) {
  uint64_t rounds = suite_rounds(argc, argv, 160), sum = 0;
  write_text((unsigned char *)input, BYTES);
  for (uint64_t r = 0; r < rounds; r++) {
    input[suite_below(BYTES)] ^= 1;
    sum = read_back(sum, LZ4_compress_default(input, packed, BYTES, ROOM));
    sum = read_back(sum, LZ4_compress_HC(input, packed, BYTES, ROOM, LEVEL));
  }
  return suite_end(sum);
}
