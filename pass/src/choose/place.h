// Where safepoints go in one function, and what each of them charges: facts.h, loops.h, choice.h, walk.h and
// behind.h, put together to what emit.h carries out.
#pragma once
#include "choose/longcalls.h"
#include "choose/walk.h"

namespace curtail {

struct Plan {
  llvm::SmallVector<Point, 8> Points;
  llvm::SmallVector<Chunk, 4> Chunks; // inner ones before outer ones
  // Loop nests in which the budget lives in a register.
  llvm::SmallVector<llvm::Loop *, 4> Nests;
  llvm::SmallVector<llvm::CallBase *, 4> Bracketed;
  llvm::SmallVector<ShortLoop, 4> Short;
  llvm::SmallVector<LongCall, 4> LongCalls;
  unsigned Longest = 0;
  unsigned LoopsWithout = 0; // loops that got none because a thread-local address is live
  Summary S;
  // How deep in loops it will be: each that is cut becomes two.
  unsigned depthOf(const llvm::Loop &L) const {
    auto Cut = [&](const Chunk &C) { return !C.Gate && C.L->contains(&L); };
    return L.getLoopDepth() + count_if(Chunks, Cut);
  }
};

Plan plan(const Facts &F);

} // namespace curtail
