// A second body for a loop.
#pragma once
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Transforms/Utils/ValueMapper.h"

namespace curtail {

// Copies the blocks of `L`, which must be as LoopInfo describes it. The copy leaves where `L` does, and
// what is used behind `L` is then of whichever was run. No edge enters the copy yet: the phis of its header
// still name the block that `L` is entered from.
void copyLoop(const llvm::Loop &L, llvm::ValueToValueMapTy &Copies);

} // namespace curtail
