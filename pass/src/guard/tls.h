// Thread-local addresses: where they are live, no fiber may be switched.
//
// A fiber that yields between taking the address of a thread-local variable and its last use lets
// others change that variable half-way. So no safepoint is placed where such an address is live,
// and a call made there runs with the critical-section depth raised.
#pragma once
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
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
  bool any() const { return !Derived.empty(); } // no value is in flight without an address
  // Is an address live just before `I`: defined earlier, and used by `I` or later?
  bool liveBefore(const llvm::Instruction &I) const;

private:
  using Values = llvm::SmallPtrSet<const llvm::Instruction *, 8>;
  void findOnceCall(const llvm::Instruction &Source);
  void findDerived(const llvm::Function &F);
  void findInFlight(const llvm::Function &F);
  // Is the value live because of this use?
  bool counts(const llvm::Instruction &Value, const llvm::Instruction &Use) const;
  void findLive(const llvm::Function &F);
  void step(const llvm::Instruction &I, Values &Live) const;

  Values Derived;
  // Between reading a variable and writing what was made of it: values, and what uses them for that.
  llvm::DenseSet<std::pair<const llvm::Instruction *, const llvm::Instruction *>> InFlight;
  // Calls of pthread_once, and the addresses through which std::call_once gave them their argument.
  llvm::DenseMap<const llvm::Instruction *, llvm::SmallVector<const llvm::Instruction *, 2>> HandedOver;
  llvm::DenseMap<const llvm::BasicBlock *, Values> LiveOut;
};

// Is it llvm.threadlocal.address?
bool isThreadLocalAddress(const llvm::Instruction &I);

// Is it an address, made of the one that it uses?
bool isDerivedAddress(const llvm::Instruction &I);

// A call to be bracketed by depth++ and depth--. Splits edges and landing pads where it must.
void bracketCall(llvm::CallBase &Call, llvm::GlobalVariable &Block);

// Raises the depth while a function-local static of C++ is being initialised: after
// __cxa_guard_acquire returned non-zero, until release or abort.
void bracketGuards(llvm::Function &F, llvm::GlobalVariable &Block);

} // namespace curtail
