/* Linked into instrumented programs: with CURTAIL_FUZZ in the environment the main thread's
 * safepoints fire as often as they can, and the hook spoils every register that a hook may spoil,
 * the control words and the x87 stack too. It ends after a number of firings (the variable's value),
 * so that programs end in time. Runs on the main thread alone. */
#include "curtail_safepoint.h"
#include <stdlib.h>

static unsigned long left, chance = 88172645463325252u;
static int avx, avx512;

static void spoil_registers(void) {
  static const uint32_t mxcsr = 0x1f80 | 0x6000;
  static const uint16_t x87 = 0x37f | 0xc00;
#define SSE(n) "pcmpeqd %%xmm" #n ", %%xmm" #n "\n\t"
  __asm__ volatile(SSE(0) SSE(1) SSE(2) SSE(3) SSE(4) SSE(5) SSE(6) SSE(7) SSE(8) SSE(9) SSE(10)
                       SSE(11) SSE(12) SSE(13) SSE(14) SSE(15)
                   :
                   :
                   : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                     "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
  if (avx)
    __asm__ volatile("vzeroall"
                     :
                     :
                     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
                       "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
  if (avx512)
    __asm__ volatile(".irp n,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n\t"
                     "vpternlogd $255, %zmm\\n, %zmm\\n, %zmm\\n\n\t.endr\n\t"
                     ".irp n,0,1,2,3,4,5,6,7\n\tkxnorw %k\\n, %k\\n, %k\\n\n\t.endr");
  __asm__ volatile("fninit\n\tfld1\n\tfld1\n\tfld1\n\tfld1\n\tfld1\n\tfld1\n\tfld1\n\tfld1\n\t"
                   "fninit\n\tfldcw %0\n\tldmxcsr %1"
                   :
                   : "m"(x87), "m"(mxcsr));
  __asm__ volatile("movq $-1, %%rax\n\tmovq %%rax, %%rcx\n\tmovq %%rax, %%rdx\n\t"
                   "movq %%rax, %%rsi\n\tmovq %%rax, %%rdi\n\tmovq %%rax, %%r8\n\t"
                   "movq %%rax, %%r9\n\tmovq %%rax, %%r10\n\tmovq %%rax, %%r11\n\tstc"
                   :
                   :
                   : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc");
}

static void spoil(struct curtail_safepoint_block *block) {
  if (block->critical != 0 || block->locks != 0)
    abort();
  if (--left == 0) {
    __atomic_store_n(&block->poll, 0, __ATOMIC_RELAXED);
    curtail_safepoint_disarm(block);
  } else {
    __atomic_store_n(&block->poll, 1, __ATOMIC_RELAXED);
    curtail_safepoint_arm(block, CURTAIL_FLAG, 0, 0);
    /* Clock kind: some work until the next firing, often none. */
    chance ^= chance << 13;
    chance ^= chance >> 7;
    chance ^= chance << 17;
    block->budget = block->granted = chance & 1 ? 0 : (int64_t)(chance >> 8 & 255);
  }
  spoil_registers();
}

__attribute__((constructor)) static void start(void) {
  const char *often = getenv("CURTAIL_FUZZ");
  if (often == NULL || (left = strtoul(often, NULL, 10)) == 0)
    return;
  __builtin_cpu_init();
  avx = __builtin_cpu_supports("avx");
  avx512 = __builtin_cpu_supports("avx512f");
  struct curtail_safepoint_block *block = curtail_safepoint_self();
  block->yield = spoil;
  __atomic_store_n(&block->poll, 1, __ATOMIC_RELAXED);
  curtail_safepoint_arm(block, CURTAIL_FLAG, 0, 0);
}
