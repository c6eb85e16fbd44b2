// Cold paths: errors, panics, exits. They carry no safepoint.
#pragma once
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Analysis/CallGraph.h"
#include "llvm/IR/Function.h"

namespace curtail {

// Blocks that inevitably end in `unreachable` or leave the function by an exception.
llvm::SmallPtrSet<const llvm::BasicBlock *, 8> coldBlocks(const llvm::Function &F);

// Of these, blocks behind which the function does nothing more that returns to it: what they call ends
// the function. (Not landing pads, whose cleanups do return.)
llvm::SmallPtrSet<const llvm::BasicBlock *, 8> deadEnds(const llvm::Function &F);

// A landing pad that may keep the exception, as far as one sees. (Clean-ups pass it on, but with a loop they are
// not cold.)
bool catches(const llvm::BasicBlock &BB);

// Takes calls in dead ends out of the graph: they make no recursion that lasts. Each round by one of
// them leaves a frame on the stack, and either the stack ends it, or a function that catches, which has a safepoint.
void dropDeadEnds(llvm::CallGraph &Graph);

} // namespace curtail
