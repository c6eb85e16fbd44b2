// What is known of a function before it has any safepoint, and of the functions that it calls. Made once, never
// changed: what follows from it is computed by loops.h, choice.h and walk.h, in this order, and put together
// in place.h.
#pragma once
#include "options.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Analysis/BlockFrequencyInfo.h"
#include "llvm/Analysis/BranchProbabilityInfo.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/InstrTypes.h"

namespace curtail {

// What callers need to know of a function.
struct Summary {
  unsigned ToFirst = 0;   // longest path from entry to a safepoint, or to a call that may have one
  bool Through = true;    // some path from entry to exit has none
  unsigned ThroughMax = 0;
  unsigned FromLast = 0;  // longest path from a safepoint to the exit
  double Uncharged = 0;   // expected work of an activation that no safepoint of its own charges
  bool MayYield = false;  // it has safepoints, or calls what may have
};
using Summaries = llvm::DenseMap<const llvm::Function *, Summary>;

struct Analyses {
  llvm::LoopInfo &LI;
  llvm::DominatorTree &DT;
  llvm::BlockFrequencyInfo &BFI;
  llvm::BranchProbabilityInfo &BPI;
  llvm::ScalarEvolution &SE;
  llvm::TargetLibraryInfo &TLI;
  llvm::TargetTransformInfo &TTI;
};

using Functions = llvm::SmallPtrSet<const llvm::Function *, 8>;
using Blocks = llvm::SmallPtrSet<const llvm::BasicBlock *, 8>;

// The functions that return to callers that do not see them: those that may be called from elsewhere, and
// what is called in the place of their return.
Functions returningFar(llvm::Module &M);

// Work of what is called, and not known, on its longest way through without a safepoint: most are shorter.
const unsigned UsualThrough = 20;

// Functions that call one another, as far as the module sees; none where there is no recursion. Each has a
// safepoint on its way to such a call.
struct CallCycle {
  Functions Members;
  // The longest way through a member without a safepoint.
  unsigned Through = UsualThrough;
  bool continues(const llvm::Function *Callee) const { return Callee && Members.contains(Callee); }
};

class Facts {
public:
  // `Far`: see returningFar.
  Facts(llvm::Function &F, const Analyses &A, const Summaries &Known, const CallCycle &Cycle, const Functions &Far,
        const Options &O);

  // What a call does to the paths that it lies on: what is known of its callee, and its own overhead.
  Summary effectOf(const llvm::CallBase &Call) const;
  // Whether an instruction is a call that may yield.
  bool mayYieldAt(const llvm::Instruction &I) const;
  // Whether a call comes back behind a safepoint only.
  bool alwaysLooks(const llvm::Instruction &I) const;
  unsigned costOf(const llvm::Instruction &I) const;
  unsigned sizeOf(const llvm::Loop &L) const;
  bool callsOut(const llvm::Loop &L) const;
  // How often a block runs, by LLVM's estimate.
  double frequencyOf(const llvm::BasicBlock &BB) const { return double(A.BFI.getBlockFreq(&BB).getFrequency()); }
  // Whether an edge leads back.
  bool isBack(const llvm::BasicBlock *From, const llvm::BasicBlock *To) const {
    return Index.lookup(From) >= Index.lookup(To);
  }
  // From where an iteration of a loop comes to a block.
  llvm::SmallVector<llvm::BasicBlock *, 4> beforeIn(const llvm::Loop &L, llvm::BasicBlock &BB) const;

  // Where a safepoint may be.
  bool legal(const llvm::Instruction &I) const;
  bool mayPlaceIn(const llvm::BasicBlock &BB) const { return !Cold.contains(&BB) && !BB.isEHPad(); }
  // The last place in a block: before the terminator, the comparison it depends on, and a tail call. (Moves the
  // comparison to the terminator, so that they still become one instruction.)
  llvm::Instruction *endOf(llvm::BasicBlock &BB) const;

  llvm::Function &F;
  const Analyses A;
  const CallCycle &Cycle;
  const Options &Opts;
  const unsigned Bound, Quarter;
  const bool Visible; // may be called from where its summary is not known
  const bool Far;     // may return to there
  const Blocks Cold;  // never return
  llvm::SmallVector<llvm::BasicBlock *, 32> Order;
  llvm::DenseMap<const llvm::BasicBlock *, unsigned> Index; // in that order

private:
  const Summaries &Known;
};

} // namespace curtail
