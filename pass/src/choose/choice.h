// Which safepoints a function is asked to have, whatever lies on the paths between them: those of cycles. Every
// loop that is neither short nor chunked has one, and so has every recursion. What the walk places beside them,
// for the bound's sake, follows.
#pragma once
#include "facts/facts.h"
#include "llvm/ADT/SetVector.h"

namespace curtail {

class Loops;

struct Choice {
  // A safepoint comes before each of these.
  llvm::SmallSetVector<llvm::Instruction *, 8> Forced;
  // Headers of loops whose safepoint is neither there nor at the ends of the ways back.
  llvm::SmallPtrSet<const llvm::BasicBlock *, 4> Open;
};

// The safepoints of all cycles.
Choice chooseForCycles(const Facts &F, const Loops &L);

// Whether each way through an iteration of a loop comes to a safepoint of `C`, to a call that always looks, or to a
// block in `Others`.
bool isCovered(const Facts &F, const Choice &C, const llvm::Loop &L, const Blocks &Others = {});

// Before loops that look at the budget on entry.
Blocks beforeChunks(const Loops &L);

// The calls of a recursion that no safepoint of a cycle lies before.
llvm::SmallVector<llvm::CallBase *, 4> uncoveredCalls(const Facts &F, const Choice &C);

} // namespace curtail
