// Notes for curtail-verify (crates/verify/src/notes.rs reads them): which functions the pass saw, and
// which loops without a safepoint it knows to be short. They change no instruction.
#pragma once
#include "options.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/Function.h"

namespace curtail {

// `F` was instrumented, or looked at and found to need no safepoint.
void noteInstrumented(llvm::Function &F, const Options &O);

// `F` was left alone, `Why` as Exclusions::reason says it: a safepoint in it is a fault.
void noteSkipped(llvm::Function &F, llvm::StringRef Why);

// `L` has no safepoint, because its header runs at most `MaxTrips` times (more than 0) each time it
// is entered, and an iteration costs at most `IterationCost`. Inner loops of `L` without a safepoint
// need notes of their own. Call it while `L` is as LoopInfo describes it; the control flow stays as it is, and nothing
// is put inside the loop.
void noteBoundedLoop(llvm::Loop &L, uint64_t MaxTrips, unsigned IterationCost);

// The same for a loop of that depth, and with so many back edges, that is entered by `Entry` alone. `MaxTrips` of 0:
// its run was charged to the budget before it was entered, and is as short as the budget says.
void noteLoop(llvm::Instruction *Entry, uint64_t MaxTrips, unsigned IterationCost, unsigned Depth, unsigned BackEdges);

} // namespace curtail
