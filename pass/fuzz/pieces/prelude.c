#define _GNU_SOURCE 1
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <fenv.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef uint8_t u8;
typedef int8_t i8;
typedef uint16_t u16;
typedef int16_t i16;
typedef uint32_t u32;
typedef int32_t i32;
typedef uint64_t u64;
typedef int64_t i64;
#ifdef __cplusplus
#define TLS thread_local
#else
#define TLS _Thread_local
#endif
#define NOINLINE __attribute__((noinline))

/* A value that the compiler does not know. */
static inline u64 hide(u64 x) {
  __asm__("" : "+r"(x));
  return x;
}

struct node {
  u32 value;
  struct node *next;
};
static struct node nodes[512];
volatile u32 sink;
static TLS u32 local_counter = 1;
TLS u32 local_array[16];

static void link_nodes(void) {
  for (u32 i = 0; i < 512; i++) {
    nodes[i].value = i * 2654435761u;
    nodes[i].next = i < 511 ? &nodes[i + 1] : 0;
  }
}
static const struct node *chain(u32 from, u32 most) {
  u32 length = from % 512 < most ? from % 512 : most;
  return length ? &nodes[512 - length] : 0;
}

static NOINLINE u32 leaf(u32 x, u32 y) { return x * 31 + (y ^ (x >> 7)); }
static inline u32 leaf_inline(u32 x, u32 y) { return x > y ? x - y : y - x; }
static NOINLINE u32 leaf_loop(u32 x, u32 y) {
  for (u32 i = 0; i < (y & 15); i++)
    x = x * 1664525u + 1013904223u;
  return x;
}
NOINLINE u32 far(u32 x, u32 y) {
  u32 buffer[20];
  for (u32 i = 0; i < 20; i++)
    buffer[i] = x + i * y;
  return buffer[x % 20] ^ buffer[y % 20];
}
static __attribute__((const, noinline)) u32 pure_leaf(u32 x, u32 y) {
  u32 r = 0;
  while (x) {
    r += y;
    x >>= 3;
  }
  return r;
}
static u32 (*table[4])(u32, u32) = {leaf, far, leaf_loop, pure_leaf};

static u64 bits_of(double d) {
  u64 x;
  memcpy(&x, &d, sizeof x);
  return x;
}
static void fill(u32 *A, u32 *B, u8 *T, u64 x) {
  for (int i = 0; i < 64; i++) {
    x = x * 6364136223846793005ull + 1442695040888963407ull;
    A[i] = (u32)(x >> 33);
    B[i] = (u32)(x >> 21);
    T[2 * i] = (u8)(x >> 40);
    T[2 * i + 1] = (u8)(x >> 48);
  }
}
static u64 folded(const u32 *A, const u32 *B, const u8 *T) {
  u64 x = local_counter;
  for (int i = 0; i < 64; i++)
    x = (x ^ A[i] ^ ((u64)B[i] << 32)) * 0x100000001b3ull + T[2 * i] + T[2 * i + 1] * 256u;
  return x;
}

/* The standard locals; a function that has them has parameters `u64 h, u32 a`. */
#define LOCALS                                                                                     \
  u32 b = (u32)h, c = a ^ 77u, A[64], B[64];                                                       \
  i32 s = (i32)a;                                                                                  \
  u8 q = (u8)h, T[128];                                                                            \
  u16 w = (u16)(h >> 8);                                                                           \
  i64 l = (i64)h;                                                                                  \
  double d = (double)(a & 1023);                                                                   \
  fill(A, B, T, h)
#define FOLD                                                                                       \
  (folded(A, B, T) ^ h ^ ((u64)a << 3) ^ b ^ ((u64)c << 32) ^ (u64)(i64)s ^ q ^ w ^ (u64)l ^       \
   bits_of(d))
