// The edge that C++ exceptions do not cross: what a request throws and does not catch ends here.
//
// Compiled only with the feature `cxx`. Below is Rust's catch_unwind, which may not see a C++
// exception; so C++ ones are caught here, and panics, foreign to C++, go on to it.
#include <cxxabi.h>
#include <exception>

extern "C" int curtail_contain(void (*run)(void *), void *argument) {
  try {
    run(argument);
    return 0;
  } catch (abi::__forced_unwind &) {
    throw;  // the thread is being cancelled
  } catch (...) {
    // A panic: the C++ runtime has no exception_ptr for what it did not throw. (Its type must not be
    // asked for: that reads a header which only C++ exceptions have.)
    if (!std::current_exception())
      throw;
    return 1;
  }
}

// All that this needs of the C++ runtime, weakly: a program of C alone does without, and has no
// exceptions. Without its personality routine the frame above is none that an unwinding panic stops
// at.
__asm__(".weak __cxa_begin_catch\n"
        ".weak __cxa_end_catch\n"
        ".weak __cxa_rethrow\n"
        ".weak __gxx_personality_v0\n"
        ".weak _ZTIN10__cxxabiv115__forced_unwindE\n"
        ".weak _ZSt17current_exceptionv\n"
        ".weak _ZNSt15__exception_ptr13exception_ptr9_M_addrefEv\n"
        ".weak _ZNSt15__exception_ptr13exception_ptr10_M_releaseEv\n"
        ".weak _ZNSt15__exception_ptr13exception_ptrD1Ev\n"
        ".weak _ZNKSt15__exception_ptr13exception_ptrcvbEv\n"
        ".weak _ZSt9terminatev\n"
        ".weak __clang_call_terminate\n");
