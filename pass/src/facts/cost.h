// What an instruction costs, in units of roughly one simple IR instruction. The run-time rate (units
// per cycle) is measured as the program runs, so only proportions matter.
#pragma once
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/InstrTypes.h"

namespace curtail {

// Calls are charged their own overhead only; what the callee does is the summary's business.
unsigned costOf(const llvm::Instruction &I, const llvm::TargetLibraryInfo &TLI, const llvm::TargetTransformInfo &TTI);

// A call that leaves this function: not an intrinsic that becomes code in line, not inline assembly.
bool isRealCall(const llvm::Instruction &I);

// A library function that is certainly not instrumented and never yields.
bool isPlainLibraryCall(const llvm::CallBase &Call, const llvm::TargetLibraryInfo &TLI);

} // namespace curtail
