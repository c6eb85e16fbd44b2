// Where safepoints go in one function, and what each of them charges: facts.h, loops.h, choice.h and walk.h, put
// together to what emit.h carries out.
#pragma once
#include "choose/longcalls.h"
#include "choose/walk.h"

namespace curtail {

struct Plan {
  llvm::SmallVector<Point, 8> Points;
  llvm::SmallVector<Chunk, 4> Chunks; // inner ones before outer ones
  llvm::SmallVector<ShortLoop, 4> Short;
  llvm::SmallVector<LongCall, 4> LongCalls;
  unsigned Longest = 0;
  Summary S;
};

struct Planned {
  llvm::Function *F;
  Plan P;
};

// Plans a function, or the members of a cycle of calls, and makes their summaries known. Once more where ways
// through members are longer than was assumed. `Of` is valid for as long as the functions do not change.
llvm::SmallVector<Planned, 1> planTogether(llvm::ArrayRef<llvm::Function *> Order, CallCycle Cycle,
                                           const Functions &Far, llvm::function_ref<Analyses(llvm::Function &)> Of,
                                           Summaries &Known);

} // namespace curtail
