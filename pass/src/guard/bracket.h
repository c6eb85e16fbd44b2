// Code in which nothing yields: the critical-section depth is raised around it.
#pragma once
#include "llvm/IR/Function.h"
#include "llvm/IR/InstrTypes.h"

namespace curtail {

// A call to be bracketed by depth++ and depth--. Splits edges and landing pads where it must.
void bracketCall(llvm::CallBase &Call, llvm::GlobalVariable &Block);

// Raises the depth while a function-local static of C++ is being initialised: after
// __cxa_guard_acquire returned non-zero, until release or abort.
void bracketGuards(llvm::Function &F, llvm::GlobalVariable &Block);

} // namespace curtail
