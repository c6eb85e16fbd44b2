// Code that tells waiters apart by their threads, made to tell fibers apart.
//
// Two fibers of one thread may wait at a time. Rust's channels take entries of the calling thread's
// own for its own earlier ones and do not wake them; parking_lot keeps one queue entry a thread.
#pragma once
#include "llvm/IR/Module.h"

namespace curtail {

// In all of `M`. Returns whether anything changed.
bool giveFibersIdentities(llvm::Module &M);

} // namespace curtail
