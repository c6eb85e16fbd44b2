// Tight loops whose end cannot be computed are unrolled, so that a safepoint serves several
// iterations.
#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/IR/PassManager.h"

namespace llvm {
class Loop;
}

namespace curtail {

// A loop to be unrolled, and how often.
struct TightLoop {
  llvm::Loop *L;
  unsigned Count;
};

// Returns whether `F` has changed; its analyses are invalid then.
bool unrollLoops(llvm::Function &F, llvm::ArrayRef<TightLoop> Loops,
                 llvm::FunctionAnalysisManager &FAM);

} // namespace curtail
