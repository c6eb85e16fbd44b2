// The code of a safepoint.
#pragma once
#include "choose/place.h"

namespace curtail {

// Offsets in struct curtail_safepoint_block (curtail_safepoint.h).
enum : uint64_t {
  BudgetOffset = 0,
  PollOffset = 8,
  DepthOffset = 12,
  PendingOffset = 16,
  ModeOffset = 20,
  DeadlineOffset = 24,
  BlockSize = 128,
};

// Declares the thread-local block in `M`, with the TLS model that the options ask for.
llvm::GlobalVariable &declareBlock(llvm::Module &M, const Options &O);

// Puts the planned safepoints into `F`. Invalidates every analysis of it.
void emit(llvm::Function &F, const Plan &P, llvm::GlobalVariable &Block, const Options &O, const Analyses &A);

} // namespace curtail
