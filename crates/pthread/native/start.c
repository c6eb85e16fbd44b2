// Where a thread's routine is called, and where `pthread_exit` comes back to.
//
// glibc's `pthread_exit` unwinds the stack, calls what `pthread_cleanup_push` has left, and jumps to the
// place that `__pthread_register_cancel` was told last: for its own threads, to where they start.

#include <pthread.h>

// Whether the routine ended by `pthread_exit`; otherwise its result is in `*result`.
int curtail_pthread_call(void *(*routine)(void *), void *argument, void **result) {
  __pthread_unwind_buf_t buffer;
  if (__sigsetjmp_cancel(buffer.__cancel_jmp_buf, 0) != 0) {
    __pthread_unregister_cancel(&buffer);
    return 1;
  }
  __pthread_register_cancel(&buffer);
  *result = routine(argument);
  __pthread_unregister_cancel(&buffer);
  return 0;
}
