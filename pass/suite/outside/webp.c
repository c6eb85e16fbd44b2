/* WebP: a picture is coded, three times of four as a photograph would be (transform, prediction,
 * arithmetic code), else without loss, and read back four times. */
#include "outside.h"

#include <webp/decode.h>
#include <webp/encode.h>

enum { WIDTH = 256, HEIGHT = 192, BACK = 4 };
static uint8_t picture[HEIGHT][WIDTH][3];

static void paint(void) {
  for (unsigned y = 0; y < HEIGHT; y++)
    for (unsigned x = 0; x < WIDTH; x++) {
      picture[y][x][0] = (uint8_t)(x * y >> 6);
      picture[y][x][1] = (uint8_t)((x ^ y) + suite_below(8));
      picture[y][x][2] = (uint8_t)(x + 2 * y);
    }
}

int main(int argc, char **argv) {
  uint64_t rounds = suite_rounds(argc, argv, 80), sum = 0;
  paint();
  for (uint64_t r = 0; r < rounds; r++) {
    picture[suite_below(HEIGHT)][suite_below(WIDTH)][1] ^= 1;
    uint8_t *packed;
    size_t length = r % 4 == 3
                        ? WebPEncodeLosslessRGB(picture[0][0], WIDTH, HEIGHT, WIDTH * 3, &packed)
                        : WebPEncodeRGB(picture[0][0], WIDTH, HEIGHT, WIDTH * 3, 75, &packed);
    expect(length > 0, "webp does not encode");
    for (int i = 0; i < BACK; i++) {
      int width = 0, height = 0;
      uint8_t *back = WebPDecodeRGB(packed, length, &width, &height);
      expect(back != NULL && width == WIDTH && height == HEIGHT, "webp does not decode");
      sum = mix_bytes(sum, back, sizeof picture);
      WebPFree(back);
    }
    WebPFree(packed);
  }
  return suite_end(sum);
}
