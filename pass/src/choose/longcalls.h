// Calls of the C library that may last long: memcpy and its kin, searches. No code could yield in them;
// so they go to functions of the same effect in the runtime, which do the work in pieces with
// safepoints between (crates/fiber/native/long_calls.c). Short ones, which most are, pass by at the
// price of a comparison.
#pragma once
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/Instructions.h"
#include <optional>

namespace curtail {

class Facts;

// The longest constant length that is charged as a part of its path; beyond, the runtime's function
// is called in any case, and charges for itself.
const uint64_t LongestInline = 8192;

struct LongCall {
  // When it goes to the runtime.
  enum Condition { Always, ByLength, WhileArmed };
  llvm::CallInst *Call;
  const char *Callee; // the runtime's function, whose arguments are the first of the call's
  Condition When;
  int Length; // which argument it is; -1 if none
};

// None if it is no such call, or provably short. Not where no safepoint may be; and where a thread-local address is
// live, a call stays as it is, since what it works on might be that variable.
std::optional<LongCall> longCallAt(const Facts &F, llvm::Instruction &I);
llvm::SmallVector<LongCall, 4> findLongCalls(const Facts &F);

// Whether a function is given to one of the C library that calls it in a loop, a comparison to qsort: that loop
// has no safepoint of its own.
bool isCalledInLoops(const llvm::Function &F);

} // namespace curtail
