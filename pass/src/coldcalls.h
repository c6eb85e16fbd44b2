// Calls on cold paths: errors, panics, exits. Nobody comes back from them, and they carry no safepoint.
#pragma once
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Analysis/CallGraph.h"
#include "llvm/IR/Function.h"

namespace curtail {

// Blocks that inevitably end in `unreachable` or leave the function by an exception.
llvm::SmallPtrSet<const llvm::BasicBlock *, 8> coldBlocks(const llvm::Function &F);

// Takes calls on cold paths out of the graph. Who goes round through these alone never comes back from any: the
// stack ends it. In every other recursion, they are not the only calls.
void dropColdCalls(llvm::CallGraph &Graph);

} // namespace curtail
