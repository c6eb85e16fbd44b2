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
  // Is `F` left alone because the user chose that: a mark, or the keep-out list?
  bool isChosen(const llvm::Function &F) const;
  // What a name alone says, of functions of other modules too; empty if nothing.
  llvm::StringRef nameOf(const llvm::Function &F) const;
  // Of a function that is left alone for this reason: may what it calls yield neither?
  static bool isShielded(llvm::StringRef Reason);

private:
  llvm::StringRef chosenReason(const llvm::Function &F) const;

  const Options &Opts;
  llvm::DenseMap<const llvm::Function *, llvm::StringRef> Marked;
};

} // namespace curtail
