/* Finds out which vector state this machine has, and the size of the area that holds it.
 *
 * Saved: x87, SSE, AVX, AVX-512 and the APX registers, as far as the system has enabled them. Not
 * saved: protection keys, which belong to the thread, and AMX tiles, whose eight kilobytes no
 * fiber's stack should have to hold: the pass puts no safepoint into code that uses tiles.
 */
#include "state.h"
#include <cpuid.h>

uint64_t curtail_state_size;
uint64_t curtail_state_mask;
uint32_t curtail_state_how;

enum {
  LEGACY_AND_HEADER = 512 + 64,
  X87_SSE_AVX_AVX512 = 0xe7,
  APX = 1 << 19,
};

static uint64_t xcr0(void) {
  uint32_t lo, hi;
  __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
  return (uint64_t)hi << 32 | lo;
}

/* Components 0 and 1 lie in the legacy area; the others have leaves of their own. */
static uint64_t area_size(uint64_t mask, int compacted) {
  uint64_t end = LEGACY_AND_HEADER;
  for (uint32_t i = 2; i < 63; i++) {
    uint32_t size, offset, flags, unused;
    if (!(mask >> i & 1))
      continue;
    __cpuid_count(0xd, i, size, offset, flags, unused);
    if (!compacted)
      end = offset + size > end ? offset + size : end;
    else
      end = (flags & 2 ? (end + 63) / 64 * 64 : end) + size;
  }
  return (end + 63) / 64 * 64;
}

void curtail_state_init(void) {
  uint32_t a, b, c, d;
  uint64_t mask = 3, size = 512;
  uint32_t how = CURTAIL_STATE_FXSAVE;
  if (__get_cpuid(1, &a, &b, &c, &d) && (c & bit_OSXSAVE) && __get_cpuid_max(0, 0) >= 0xd) {
    mask = xcr0() & (X87_SSE_AVX_AVX512 | APX);
    __cpuid_count(0xd, 1, a, b, c, d);
    how = a & 2 ? CURTAIL_STATE_XSAVEC : CURTAIL_STATE_XSAVE;
    size = area_size(mask, how == CURTAIL_STATE_XSAVEC);
  }
  curtail_state_mask = mask;
  curtail_state_how = how;
  /* Last: the stub's caller takes a size for the sign that the rest is there. */
  __atomic_store_n(&curtail_state_size, size, __ATOMIC_RELEASE);
}
