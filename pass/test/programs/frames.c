/* Walks the stack from inside a safepoint: by the unwind tables, as debuggers and C++ do, and along
 * the frame pointers, as profilers do. Both must get to main through every instrumented frame. To be
 * compiled with -fno-omit-frame-pointer. Prints what was found at the first firing of each depth. */
#define _GNU_SOURCE
#include "curtail_safepoint.h"
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

static volatile unsigned wanted, reached;
static unsigned by_tables, by_pointers, middle;
static volatile unsigned sink;
unsigned descend(unsigned depth);
int main(void);

CURTAIL_NO_SAFEPOINT static const char *name_of(void *address) {
  Dl_info info;
  return dladdr(address, &info) && info.dli_sname ? info.dli_sname : "";
}

CURTAIL_NO_SAFEPOINT static void count(const char *name, unsigned *found) {
  if (strcmp(name, "descend") == 0)
    middle++;
  if (strcmp(name, "main") == 0)
    *found = middle;
}

CURTAIL_NO_SAFEPOINT static _Unwind_Reason_Code frame(struct _Unwind_Context *context, void *unused) {
  (void)unused;
  int before;
  uintptr_t ip = _Unwind_GetIPInfo(context, &before);
  count(name_of((void *)(ip - !before)), &by_tables);
  return _URC_NO_REASON;
}

CURTAIL_NO_SAFEPOINT static void hook(struct curtail_safepoint_block *b) {
  if (wanted && !reached) {
    reached = wanted;
    middle = 0;
    _Unwind_Backtrace(frame, NULL);
    middle = 0;
    uintptr_t *at = __builtin_frame_address(0);
    for (unsigned steps = 0; steps < 64 && at; steps++) {
      const char *name = name_of((void *)(at[1] - 1));
      count(name, &by_pointers);
      if (strcmp(name, "main") == 0)
        break;
      at = (uintptr_t *)at[0];
    }
  }
  curtail_safepoint_arm(b, CURTAIL_CLOCK, 0, 0);
}

__attribute__((noinline)) unsigned descend(unsigned depth) {
  unsigned below = depth ? descend(depth - 1) : 0;
  if (depth == 0) {
    wanted = 1;
    for (unsigned i = 0; i < 3000; i++)
      sink = sink * 5 + i;
    wanted = 0;
  }
  return below + sink % 2;
}

int main(void) {
  struct curtail_safepoint_block *b = curtail_safepoint_self();
  b->yield = hook;
  curtail_safepoint_arm(b, CURTAIL_CLOCK, 0, 0);
  descend(6);
  printf("fired %u, descend frames: %u by tables, %u by pointers\n", reached, by_tables, by_pointers);
  return 0;
}
