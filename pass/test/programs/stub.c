/* The stub keeps every register, whatever width the machine is said to have, while the hook spoils
 * them all. Built with the native sources themselves, so that widths can be chosen. */
#include "curtail_safepoint.h"
#include "state.c"
#include <stdio.h>
#include <string.h>

static int fired;
static uint32_t hook_mxcsr, hook_width;
static uint16_t hook_x87;

#define ALL16(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define UPPER16(X)                                                                                 \
  X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)
#define MASKS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define STR(N) #N
#define SPOIL_XMM(N) "pcmpeqd %%xmm" STR(N) ", %%xmm" STR(N) "\n"
#define SPOIL_YMM(N) "vcmptrueps %%ymm" STR(N) ", %%ymm" STR(N) ", %%ymm" STR(N) "\n"
#define SPOIL_ZMM(N) "vpternlogd $255, %%zmm" STR(N) ", %%zmm" STR(N) ", %%zmm" STR(N) "\n"
#define SPOIL_K(N) "kxnorq %%k" STR(N) ", %%k" STR(N) ", %%k" STR(N) "\n"

static void hook(struct curtail_safepoint_block *block) {
  (void)block;
  fired++;
  __asm__ volatile("stmxcsr %0\nfnstcw %1" : "=m"(hook_mxcsr), "=m"(hook_x87));
  if (hook_width == CURTAIL_WIDTH_SSE)
    __asm__ volatile(ALL16(SPOIL_XMM) :);
  if (hook_width >= CURTAIL_WIDTH_AVX)
    __asm__ volatile(ALL16(SPOIL_YMM) :);
  if (hook_width >= CURTAIL_WIDTH_AVX512)
    __asm__ volatile(ALL16(SPOIL_ZMM) UPPER16(SPOIL_ZMM) MASKS(SPOIL_K) :);
  uint32_t other = 0x7f80; /* rounds to zero */
  __asm__ volatile("ldmxcsr %0\nfldpi\nfstp %%st(0)\nxorl %%eax, %%eax\nxorl %%ecx, %%ecx\n"
                   "xorl %%edx, %%edx\nxorl %%esi, %%esi\nxorl %%edi, %%edi\nxorl %%r8d, %%r8d\n"
                   "xorl %%r9d, %%r9d\nxorl %%r10d, %%r10d\nxorl %%r11d, %%r11d"
                   :
                   : "m"(other)
                   : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11");
}

static struct {
  uint8_t vector[32 * 64];
  uint64_t mask[8];
  uint64_t general[9];
  uint32_t mxcsr;
  uint16_t x87;
} in, out __attribute__((aligned(64)));

#define LOAD_XMM(N) "movups " STR(N) "*64(%0), %%xmm" STR(N) "\n"
#define KEEP_XMM(N) "movups %%xmm" STR(N) ", " STR(N) "*64(%1)\n"
#define LOAD_YMM(N) "vmovups " STR(N) "*64(%0), %%ymm" STR(N) "\n"
#define KEEP_YMM(N) "vmovups %%ymm" STR(N) ", " STR(N) "*64(%1)\n"
#define LOAD_ZMM(N) "vmovups " STR(N) "*64(%0), %%zmm" STR(N) "\n"
#define KEEP_ZMM(N) "vmovups %%zmm" STR(N) ", " STR(N) "*64(%1)\n"
#define LOAD_K(N) "kmovq 2048+8*" STR(N) "(%0), %%k" STR(N) "\n"
#define KEEP_K(N) "kmovq %%k" STR(N) ", 2048+8*" STR(N) "(%1)\n"
/* Past the red zone, at an odd alignment, as the pass's own calls may be. */
#define FIRE                                                                                       \
  "leaq -136(%%rsp), %%rsp\n"                                                                      \
  "ldmxcsr 2184(%0)\nfldcw 2188(%0)\n"                                                             \
  "movq 2112(%0), %%rax\nmovq 2120(%0), %%rcx\nmovq 2128(%0), %%rdx\nmovq 2136(%0), %%rsi\n"       \
  "movq 2144(%0), %%rdi\nmovq 2152(%0), %%r8\nmovq 2160(%0), %%r9\nmovq 2168(%0), %%r10\n"         \
  "movq 2176(%0), %%r11\n"                                                                         \
  "call curtail_safepoint_slow\n"                                                                  \
  "movq %%rax, 2112(%1)\nmovq %%rcx, 2120(%1)\nmovq %%rdx, 2128(%1)\nmovq %%rsi, 2136(%1)\n"       \
  "movq %%rdi, 2144(%1)\nmovq %%r8, 2152(%1)\nmovq %%r9, 2160(%1)\nmovq %%r10, 2168(%1)\n"         \
  "movq %%r11, 2176(%1)\n"                                                                         \
  "stmxcsr 2184(%1)\nfnstcw 2188(%1)\n"                                                            \
  "leaq 136(%%rsp), %%rsp\n"
#define RUN(LOADS, KEEPS)                                                                          \
  __asm__ volatile(LOADS FIRE KEEPS                                                                \
                   :                                                                               \
                   : "b"(&in), "r"(to)                                                             \
                   : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc")

static void run(uint32_t width) {
  register void *to __asm__("r12") = &out;
  if (width == CURTAIL_WIDTH_SSE)
    RUN(ALL16(LOAD_XMM), ALL16(KEEP_XMM));
  else if (width == CURTAIL_WIDTH_AVX)
    RUN(ALL16(LOAD_YMM), ALL16(KEEP_YMM));
  else
    RUN(ALL16(LOAD_ZMM) UPPER16(LOAD_ZMM) MASKS(LOAD_K),
        ALL16(KEEP_ZMM) UPPER16(KEEP_ZMM) MASKS(KEEP_K));
}

/* Puts all that is wider than xmm into its initial state, as the processor sees it. */
static void clean(void) {
  static uint8_t area[4096] __attribute__((aligned(64)));
  uint32_t has, high;
  __asm__ volatile("xgetbv" : "=a"(has), "=d"(high) : "c"(0));
  memset(area, 0, sizeof area);
  area[527] = 0x80; /* compacted */
  /* What the machine does not have is a fault. */
  area[520] = 0xe6 & has;
  __asm__ volatile("xrstor64 (%0)" : : "r"(area), "a"(0xe4), "d"(0) : "memory");
}

/* `tidy`: cleans up before, and afterwards what was clean must be zero, although the hook filled it. */
static int check(const char *what, uint32_t width, uint32_t compared, size_t bytes, int tidy) {
  memset(&out, 0, sizeof out);
  int before = fired;
  uint64_t k1 = 0, z31[8] = {0}, y3[4] = {0};
  struct curtail_safepoint_block *block = curtail_safepoint_self();
  block->poll = 1;
  curtail_safepoint_arm(block, CURTAIL_FLAG, 0, 0);
  if (tidy)
    clean();
  run(compared);
  if (tidy) {
    if (width == CURTAIL_WIDTH_AVX512)
      __asm__ volatile("kmovq %%k1, %0\nvmovups %%zmm31, (%1)" : "=&r"(k1) : "r"(z31) : "memory");
    __asm__ volatile("vmovups %%ymm3, (%0)" : : "r"(y3) : "memory");
  }
  int wrong = fired != before + 1 || hook_mxcsr != 0x1f80 || hook_x87 != 0x37f ||
              memcmp(in.general, out.general, sizeof in.general) != 0 ||
              (out.mxcsr & 0xffc0) != in.mxcsr || out.x87 != in.x87 || k1 != 0 || z31[0] != 0 ||
              z31[7] != 0 || y3[2] != 0 || y3[3] != 0;
  for (int i = 0; i < (bytes == 64 ? 32 : 16); i++)
    wrong |= memcmp(in.vector + i * 64, out.vector + i * 64, bytes) != 0;
  if (compared == CURTAIL_WIDTH_AVX512)
    wrong |= memcmp(in.mask + 1, out.mask + 1, 7 * 8) != 0;
  if (wrong)
    printf("stub: %s (width %u) does not keep everything\n", what, width);
  return wrong;
}

int main(void) {
  curtail_state_init();
  uint32_t widest = curtail_state_width;
  if (widest == CURTAIL_WIDTH_STRANGE)
    return 0;
  for (size_t i = 0; i < sizeof in.vector; i++)
    in.vector[i] = (uint8_t)(i * 7 + i / 64);
  for (uint64_t i = 0; i < 9; i++)
    in.general[i] = 0x0123456789abcdefu * (i + 3);
  for (uint64_t i = 0; i < 8; i++)
    in.mask[i] = 0x8000000180000001u << i;
  in.mxcsr = 0x5f80; /* rounds up */
  in.x87 = 0x27f;    /* double precision */
  curtail_safepoint_self()->yield = hook;
  static const size_t bytes[] = {0, 16, 32, 64};
  int wrong = 0;
  for (uint32_t width = 1; width <= widest; width++) {
    curtail_state_width = hook_width = width;
    curtail_state_ask = 0;
    wrong |= check("without asking", width, width, bytes[width], 0);
    if (width == 1)
      continue;
    curtail_state_ask = 1;
    wrong |= check("asking, in use", width, width, bytes[width], 0);
    wrong |= check("asking, clean", width, CURTAIL_WIDTH_SSE, 16, 1);
  }
  return wrong;
}
