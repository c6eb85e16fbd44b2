// A part of Placer: how often places run, by estimate. LLVM's, but for recursion.
#include "place.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Instructions.h"

using namespace llvm;

namespace curtail {

double Placer::frequencyOf(const BasicBlock &BB) const {
  double Part = 1;
  for (const Loop *L = A.LI.getLoopFor(&BB); L && !Fewer.empty(); L = L->getParentLoop())
    if (auto It = Fewer.find(L); It != Fewer.end())
      Part *= It->second;
  return Part * double(A.BFI.getBlockFreq(&BB).getFrequency());
}

// Of a recursion that ends, each activation makes less than one call in the mean. LLVM does not know that, and
// takes a loop around such calls for one of 32 iterations: here it has as few as the law allows, of loops in one
// another the outer ones first.
void Placer::expectFewCalls() {
  SmallVector<const BasicBlock *, 8> Calling;
  for (const BasicBlock *BB : Order)
    for (const Instruction &I : *BB) {
      auto *Call = dyn_cast<CallBase>(&I);
      if (Call && Call->getCalledFunction() && Cycle.Members.contains(Call->getCalledFunction()))
        Calling.push_back(BB);
    }
  for (const Loop *L : A.LI.getLoopsInPreorder()) {
    if (none_of(Calling, [&](const BasicBlock *BB) { return L->contains(BB); }))
      continue;
    double Calls = 0, Entered = 0;
    for (const BasicBlock *BB : Calling)
      Calls += frequencyOf(*BB);
    for (const BasicBlock *Before : predecessors(L->getHeader()))
      if (!L->contains(Before) && Index.count(Before))
        Entered += frequencyOf(*Before) * A.BPI.getEdgeProbability(Before, L->getHeader()).toDouble();
    double Most = std::max(Entered / std::max(frequencyOf(*L->getHeader()), 1.0),
                           double(A.BFI.getEntryFreq().getFrequency()) / std::max(Calls, 1.0));
    if (Most < 1)
      Fewer[L] = Most;
  }
}

double Placer::frequencyOfPoints() const {
  double Sum = 0;
  for (const Point &Safepoint : P.Points)
    Sum += frequencyOf(*Safepoint.Before->getParent());
  return Sum;
}

} // namespace curtail
