// Thread-local addresses: where they are live, no fiber may be switched.
//
// A fiber that yields between taking the address of a thread-local variable and its last use lets
// others change that variable half-way. So no safepoint is placed where such an address is live,
// and a call made there runs with the critical-section depth raised.
#pragma once
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/Instructions.h"

namespace curtail {

// Liveness of thread-local addresses (llvm.threadlocal.address and what GEPs, casts, phis, selects
// and freezes make of it) in one function. Valid until the function changes.
class ThreadLocalLiveness {
public:
  explicit ThreadLocalLiveness(const llvm::Function &F);
  bool any() const { return !Derived.empty(); }
  // Is an address live just before `I`: defined earlier, and used by `I` or later?
  bool liveBefore(const llvm::Instruction &I) const;
  // Live across the call, or handed to it.
  bool heldDuring(const llvm::CallBase &Call) const;

private:
  using Values = llvm::SmallPtrSet<const llvm::Instruction *, 8>;
  void findDerived(const llvm::Function &F);
  void findLive(const llvm::Function &F);
  Values liveAfter(const llvm::Instruction &I) const;
  void step(const llvm::Instruction &I, Values &Live) const;

  Values Derived;
  llvm::DenseMap<const llvm::BasicBlock *, Values> LiveOut;
};

// A call to be bracketed by depth++ and depth--. Splits edges and landing pads where it must.
void bracketCall(llvm::CallBase &Call, llvm::GlobalVariable &Block);

// Raises the depth while a function-local static of C++ is being initialised: after
// __cxa_guard_acquire returned non-zero, until release or abort. Returns whether anything changed.
bool bracketGuards(llvm::Function &F, llvm::GlobalVariable &Block);

} // namespace curtail
