/* Linked into programs built with --safepoint=flag: the driver asks for curtail_kind_flag.
 *
 * Their safepoints look at the poll word and at nothing else, so a process that can write that has them
 * yield at once. Each thread's block is on a page of its own: memory that another process writes, too, can
 * take that page's place (crates/shm, `poll_pages`). Executables alone have it: a shared object that is
 * loaded later would not find room for a page among the thread-local variables. */
#include "state.h"

const int curtail_kind_flag = 1;
const int curtail_safepoint_built = 1;
const int curtail_safepoint_paged = 1;

enum { PAGE_BYTES = 4096 };

union page {
  struct curtail_safepoint_block block;
  char bytes[PAGE_BYTES];
};

/* By its name it is the block: see `curtail_safepoint` in safepoint.c. */
__thread union page curtail_safepoint_page __asm__("curtail_safepoint")
    __attribute__((aligned(PAGE_BYTES))) = {.block = CURTAIL_INITIAL_BLOCK};
