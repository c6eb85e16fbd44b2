// Recursion that is unrolled, so that a safepoint serves several activations.
#pragma once
#include "llvm/IR/PassManager.h"

namespace curtail {

// Inlines a small function that calls itself into itself. Every activation needs a safepoint on its
// way to the next one; in a small function that shows, above all because each has to wait for the
// budget that the one before it has just stored. Returns whether `F` has changed.
bool unrollRecursion(llvm::Function &F, llvm::FunctionAnalysisManager &FAM);

// How many activations one of `F` stands for since, if it calls itself in a loop; else 1.
unsigned activationsOf(const llvm::Function &F);

} // namespace curtail
