/* bzip2: blocks of 300,000 bytes are sorted, coded by Huffman's codes, and read back. */
#include "outside.h"

#include <bzlib.h>

enum { BYTES = 300000, ROOM = BYTES + BYTES / 100 + 600, LEVEL = 3 };
static unsigned char input[BYTES], packed[ROOM], output[BYTES];

/* The library calls this where it finds itself broken. */
void bz_internal_error(int code) {
  fprintf(stderr, "bzip2: internal error %d\n", code);
  exit(1);
}

int main(int argc, char **argv) {
  uint64_t rounds = suite_rounds(argc, argv, 40), sum = 0;
  write_text(input, BYTES);
  for (uint64_t r = 0; r < rounds; r++) {
    input[suite_below(BYTES)] ^= 1;
    unsigned length = ROOM, back = BYTES;
    int code = BZ2_bzBuffToBuffCompress((char *)packed, &length, (char *)input, BYTES, LEVEL, 0, 0);
    expect(code == BZ_OK, "bzip2 does not compress");
    code = BZ2_bzBuffToBuffDecompress((char *)output, &back, (char *)packed, length, 0, 0);
    expect(code == BZ_OK && back == BYTES, "bzip2 does not decompress");
    expect(memcmp(input, output, BYTES) == 0, "what was packed unpacks to something else");
    sum = mix_bytes(sum, packed, length);
  }
  return suite_end(sum);
}
