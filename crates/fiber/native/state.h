/* How the stub saves what general registers do not hold. Written once, by whichever thread first
 * has to yield (every thread would write the same values); read by the stub afterwards. */
#ifndef CURTAIL_STATE_H
#define CURTAIL_STATE_H
#include <stdint.h>

#define CURTAIL_HIDDEN __attribute__((visibility("hidden")))

enum curtail_state_how {
  CURTAIL_STATE_FXSAVE = 0,
  CURTAIL_STATE_XSAVE = 1,
  CURTAIL_STATE_XSAVEC = 2,
};

/* Bytes of the save area, 0 until initialised. */
CURTAIL_HIDDEN extern uint64_t curtail_state_size;
/* The components to save, as in XCR0. */
CURTAIL_HIDDEN extern uint64_t curtail_state_mask;
/* enum curtail_state_how. */
CURTAIL_HIDDEN extern uint32_t curtail_state_how;

CURTAIL_HIDDEN void curtail_state_init(void);

#endif
