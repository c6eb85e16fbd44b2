// Tight loops whose end is not known are unrolled, so that a safepoint serves several iterations.
#pragma once
#include "facts/facts.h"
#include "llvm/IR/PassManager.h"

namespace curtail {

// Innermost loops in which a safepoint would show although it keeps its budget in a register. Returns whether the
// function has changed; its analyses are invalid then.
bool unrollTightLoops(const Facts &F, llvm::FunctionAnalysisManager &FAM);

} // namespace curtail
