/* Finds out which vector registers this machine has.
 *
 * Plain stores and loads of all of them take a tenth of the time of XSAVEC and XRSTOR (23 against
 * 335 cycles where this was measured), so the stub does that. What it does not save, the pass sees
 * to: x87 registers are clobbers of the safepoint in functions that use them, and functions compiled
 * for AMX tiles or for the APX registers get no safepoint.
 */
#include "state.h"
#include <cpuid.h>

uint32_t curtail_state_width = CURTAIL_WIDTH_UNKNOWN;
uint32_t curtail_state_ask;

enum {
  XCR0_AVX = 0x06,
  XCR0_AVX512 = 0xe6,
};

static uint32_t xcr0(void) {
  uint32_t lo, hi;
  __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
  return lo;
}

static uint32_t width(void) {
  uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_AVX))
    return CURTAIL_WIDTH_SSE;
  uint32_t enabled = xcr0();
  if ((enabled & XCR0_AVX) != XCR0_AVX)
    return CURTAIL_WIDTH_SSE;
  if ((enabled & XCR0_AVX512) != XCR0_AVX512 || !__get_cpuid_count(7, 0, &a, &b, &c, &d) ||
      !(b & bit_AVX512F))
    return CURTAIL_WIDTH_AVX;
  return b & bit_AVX512BW ? CURTAIL_WIDTH_AVX512 : CURTAIL_WIDTH_STRANGE;
}

/* Intel, and XGETBV knows what is in use. */
static uint32_t ask(void) {
  uint32_t a, b, c, d;
  if (!__get_cpuid(0, &a, &b, &c, &d) || b != signature_INTEL_ebx)
    return 0;
  return __get_cpuid_count(0xd, 1, &a, &b, &c, &d) && (a & 4) != 0;
}

void curtail_state_init(void) {
  uint32_t found = width();
  curtail_state_ask = found > CURTAIL_WIDTH_SSE ? ask() : 0;
  /* Last: a width is the sign that the rest is there. */
  __atomic_store_n(&curtail_state_width, found, __ATOMIC_RELEASE);
}
