/* Compression in the manner of LZ77: hash chains find matches, a byte code is written and read back;
 * copies of a few bytes, loops that end early. */
#include "../suite.h"

enum { BYTES = 1 << 18, HASHES = 1 << 14, WINDOW = 1 << 15, TRIES = 24, SHORTEST = 4 };
static unsigned char input[BYTES], packed[BYTES + BYTES / 64 + 64], output[BYTES];
static int32_t head[HASHES], before[WINDOW];

static void write_input(uint64_t salt) {
  static const char *const words[] = {"request", "worker", " ",   "the quantum", "queue",   "\n",
                                      "0123",    " of ",   " a ", "service",     "slowdown"};
  suite_state ^= salt << 7;
  for (size_t at = 0; at < BYTES;) {
    if (suite_below(6) == 0) {
      input[at++] = (unsigned char)suite_random();
      continue;
    }
    const char *word = words[suite_below(sizeof words / sizeof *words)];
    while (*word != 0 && at < BYTES)
      input[at++] = (unsigned char)*word++;
  }
}

static uint32_t hash_at(size_t at) {
  uint32_t v;
  memcpy(&v, input + at, 4);
  return v * 2654435761u >> 18;
}

static size_t common(size_t a, size_t b) {
  size_t n = 0, most = BYTES - b < 273 ? BYTES - b : 273;
  while (n < most && input[a + n] == input[b + n])
    n++;
  return n;
}

static size_t longest(size_t at, size_t *distance) {
  size_t best = 0;
  int32_t candidate = head[hash_at(at)];
  for (int tries = 0; tries < TRIES && candidate >= 0; tries++) {
    if (at - (size_t)candidate >= WINDOW)
      break;
    size_t n = common((size_t)candidate, at);
    if (n > best) {
      best = n;
      *distance = at - (size_t)candidate;
    }
    int32_t next = before[candidate % WINDOW];
    if (next >= candidate)
      break;
    candidate = next;
  }
  return best;
}

static void enter(size_t at) {
  uint32_t h = hash_at(at);
  before[at % WINDOW] = head[h];
  head[h] = (int32_t)at;
}

/* 0 n bytes… : n literal bytes; n distance(2) : a match of n + 3 bytes. */
static size_t pack(void) {
  size_t out = 0, literals = 0, at = 0;
  memset(head, 255, sizeof head);
  while (at < BYTES) {
    size_t distance = 0, n = at + SHORTEST <= BYTES ? longest(at, &distance) : 0;
    size_t covered = n >= SHORTEST ? (n < 258 ? n : 258) : 1;
    if (n < SHORTEST)
      literals++;
    if (literals > 0 && (n >= SHORTEST || literals == 255 || at + 1 == BYTES)) {
      size_t end = n >= SHORTEST ? at : at + 1;
      packed[out++] = 0;
      packed[out++] = (unsigned char)literals;
      memcpy(packed + out, input + end - literals, literals);
      out += literals;
      literals = 0;
    }
    if (n >= SHORTEST) {
      packed[out++] = (unsigned char)(covered - 3);
      packed[out++] = (unsigned char)distance;
      packed[out++] = (unsigned char)(distance >> 8);
    }
    for (size_t i = 0; i < covered; i++, at++)
      if (at + SHORTEST <= BYTES)
        enter(at);
  }
  return out;
}

static size_t unpack(size_t length) {
  size_t out = 0;
  for (size_t at = 0; at < length;) {
    size_t n = packed[at++];
    if (n == 0) {
      n = packed[at++];
      memcpy(output + out, packed + at, n);
      at += n;
      out += n;
      continue;
    }
    size_t distance = packed[at] | (size_t)packed[at + 1] << 8;
    at += 2;
    for (n += 3; n > 0; n--, out++)
      output[out] = output[out - distance];
  }
  return out;
}

int main(int argc, char **argv) {
  uint64_t rounds = suite_rounds(argc, argv, 200), sum = 0;
  for (uint64_t r = 0; r < rounds; r++) {
    if (r % 8 == 0)
      write_input(r);
    else
      input[suite_below(BYTES)] ^= 1;
    size_t length = pack();
    if (unpack(length) != BYTES || memcmp(input, output, BYTES) != 0) {
      fprintf(stderr, "what was packed does not unpack\n");
      return 1;
    }
    sum = suite_mix(sum, length);
    for (size_t i = 0; i < length; i += 61)
      sum = suite_mix(sum, packed[i]);
  }
  return suite_end(sum);
}
