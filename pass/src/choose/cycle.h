// The safepoints of functions that call one another, planned together.
#pragma once
#include "choose/place.h"

namespace curtail {

struct Planned {
  llvm::Function *F;
  Plan P;
};

// Whether one call of a member may come after another in the same activation of one of `Order`. Not in large cycles:
// those are no trees, but programs that call one another back.
bool mayBranch(llvm::ArrayRef<llvm::Function *> Order, const Functions &Members,
               llvm::function_ref<Analyses(llvm::Function &)> Of);

// Plans a function, or the members of a cycle of calls, and makes their summaries known. Once more where ways
// through members are longer than was assumed. `Of` is valid for as long as the functions do not change.
llvm::SmallVector<Planned, 1> planTogether(llvm::ArrayRef<llvm::Function *> Order, CallCycle Cycle,
                                           const Functions &Far, llvm::function_ref<Analyses(llvm::Function &)> Of,
                                           Summaries &Known);

} // namespace curtail
