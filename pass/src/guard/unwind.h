// Exceptions and panics that leave a function which has raised the depth of critical sections.
#pragma once
#include "llvm/IR/Instructions.h"

namespace curtail {

// Whether an exception may leave the function by this call.
bool mayLeaveBy(const llvm::CallInst &Call);

// A landing pad that only goes on unwinding: to lower the depth in. Null where the module's exceptions have no
// personality, as in C.
llvm::BasicBlock *createCleanup(llvm::Function &F);

// The first place behind `I`; for an invoke, where it returns to. Splits an edge where it must.
llvm::Instruction *behind(llvm::Instruction &I);

// The call, as one that unwinds to a landing pad.
llvm::InvokeInst &unwindTo(llvm::CallInst &Call, llvm::BasicBlock &Pad);

} // namespace curtail
