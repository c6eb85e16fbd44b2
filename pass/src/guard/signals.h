// Signal handlers, as far as a module shows them: functions whose address goes to signal(), or into
// the first field of what goes to sigaction().
#pragma once
#include "llvm/ADT/SetVector.h"
#include "llvm/IR/Module.h"

namespace curtail {

// In the module's order of installation.
llvm::SmallSetVector<llvm::Function *, 4> findSignalHandlers(const llvm::Module &M);

} // namespace curtail
