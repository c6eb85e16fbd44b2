// What CURTAIL_PASS says. Read once, never changed afterwards: link-time back ends on several
// threads share it.
#pragma once
#include "keepout.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace curtail {

// Reads: the clock is read at every safepoint, to show what that costs.
enum class Kind { None, Flag, Clock, Reads };

// How instrumented code reaches the thread-local block and the stub.
enum class Tls {
  Auto,    // initial-exec where the module is built for a shared object, else local-exec
  Local,   // local-exec: executables
  Initial, // initial-exec: shared objects too
};

struct Options {
  Kind Safepoints = Kind::Clock;
  // Longest path between two safepoints, in units of cost.h (about one IR instruction each).
  unsigned Bound = 600;
  Tls Model = Tls::Auto;
  std::string Report;
  // Functions that get no safepoint, beside the built-in ones.
  KeepOutList KeepOut;
};

// Parses `kind=clock,bound=200,…`. An unknown key or a bad value is an error that names it.
llvm::Expected<Options> parseOptions(llvm::StringRef Text);

// The options of this process, from the environment. Ends the process with a message if they are
// wrong: code without the safepoints that were asked for must not pass for instrumented.
const Options &options();

} // namespace curtail
