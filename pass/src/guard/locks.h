// No yield while a lock of Rust is held.
//
// The fast paths of std's and parking_lot's locks are inlined into the code that uses them. Two witnesses
// tell their atomic operations from others: the debug location (line tables say which function an
// instruction was inlined from), and the call of the lock's slow path for the same lock behind the
// operation's failure. The slow paths themselves are calls, known by name; so is everything where
// nothing was inlined.
//
// Taking raises the critical-section depth (before it may succeed, and lowers it again where it does
// not), giving back lowers it. The yield that fell due in between comes once the lock is free and
// a fiber that waited for it was woken.
#pragma once
#include "guard/exclude.h"
#include "report/report.h"
#include "llvm/IR/PassManager.h"

namespace curtail {

// For all functions of `M`, those without safepoints too: a guard may be made in one and dropped in
// another. Call it before safepoints are placed.
void instrumentLocks(llvm::Module &M, const Exclusions &Excluded, llvm::GlobalVariable &Block,
                     llvm::FunctionAnalysisManager &FAM, Report &R);

} // namespace curtail
