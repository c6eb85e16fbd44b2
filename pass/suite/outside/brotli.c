/* Brotli: three qualities in turn, each result read back four times. */
#include "outside.h"

#include <brotli/decode.h>
#include <brotli/encode.h>

enum { BYTES = 1 << 18, ROOM = BYTES + BYTES / 16 + 1024, WINDOW = 22, BACK = 4 };
static unsigned char input[BYTES], packed[ROOM], output[BYTES];

int main(int argc, char **argv) {
  static const int qualities[] = {2, 5, 8};
  uint64_t rounds = suite_rounds(argc, argv, 180), sum = 0;
  write_text(input, BYTES);
  for (uint64_t r = 0; r < rounds; r++) {
    input[suite_below(BYTES)] ^= 1;
    size_t length = ROOM;
    int done = BrotliEncoderCompress(qualities[r % 3], WINDOW, BROTLI_MODE_GENERIC, BYTES, input,
                                     &length, packed);
    expect(done, "brotli does not compress");
    for (int i = 0; i < BACK; i++) {
      size_t back = BYTES;
      int result = (int)BrotliDecoderDecompress(length, packed, &back, output);
      expect(result == BROTLI_DECODER_RESULT_SUCCESS && back == BYTES,
             "brotli does not decompress");
    }
    expect(memcmp(input, output, BYTES) == 0, "what was packed unpacks to something else");
    sum = mix_bytes(sum, packed, length);
  }
  return suite_end(sum);
}
