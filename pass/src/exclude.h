// Which functions get no safepoint, and why.
#pragma once
#include "options.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/Module.h"

namespace curtail {

// Decides for the functions of one module.
class Exclusions {
public:
  Exclusions(const llvm::Module &M, const Options &O);
  // Why `F` is left alone; empty if it is to be instrumented.
  llvm::StringRef reason(const llvm::Function &F) const;

private:
  const Options &Opts;
  llvm::DenseMap<const llvm::Function *, llvm::StringRef> Marked;
};

} // namespace curtail
