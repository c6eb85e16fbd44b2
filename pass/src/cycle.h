// The safepoints of functions that call one another, planned together.
#pragma once
#include "place.h"

namespace curtail {

struct Planned {
  llvm::Function *F;
  Plan P;
  Summary S;
};

// Plans a function, or the members of a cycle of calls that get safepoints, and makes their summaries known. `Of` is valid for as
// long as the functions do not change.
llvm::SmallVector<Planned, 1> planTogether(llvm::ArrayRef<llvm::Function *> Order, const Functions &Members,
                                           const Functions &Far,
                                           llvm::function_ref<Analyses(llvm::Function &)> Of,
                                           Summaries &Known);

} // namespace curtail
