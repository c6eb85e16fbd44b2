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

// The crate (or C++ namespace) at the root of a mangled name's path: `curtail_fiber` for
// `<curtail_fiber::Stack as Drop>::drop`. Empty if the name is not mangled.
std::string rootOfPath(llvm::StringRef Mangled);

} // namespace curtail
