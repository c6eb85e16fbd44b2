// The edge that C++ exceptions do not cross: what a request throws and nobody catches ends here.
//
// Compiled only with the feature `cxx`, because it needs the C++ runtime. Below is Rust's
// catch_unwind, which may not see a C++ exception; so C++ ones are caught here, and panics, foreign
// to C++, go on to it.
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
    if (!std::current_exception()) throw;
    return 1;
  }
}
