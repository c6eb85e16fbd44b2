#include "choose/behind.h"
#include "llvm/IR/Instructions.h"

using namespace llvm;

namespace curtail {

// Each try walks the whole function.
static const unsigned MostTries = 128;

// The last place of each turn of a loop before its first call or inner loop: behind the tests that end it
// before it does much. Null if that is the header, or there is none.
static Instruction *placeBehindTests(const Facts &F, const Loops &L, const Loop &Of) {
  auto Calls = [&](const Instruction &I) { return F.mayYieldAt(I); };
  auto At = [&](const BasicBlock *BB) { return F.Index.lookup(BB); };
  BasicBlock *First = nullptr;
  for (BasicBlock *BB : Of.blocks())
    if ((F.A.LI.getLoopFor(BB) != &Of || any_of(*BB, Calls)) && (!First || At(BB) < At(First)))
      First = BB;
  if (!First)
    return nullptr;
  for (BasicBlock *BB = Of.getLoopLatch(); BB && BB != Of.getHeader(); BB = F.A.DT.getNode(BB)->getIDom()->getBlock()) {
    if (At(BB) > At(First) || F.A.LI.getLoopFor(BB) != &Of)
      continue;
    Instruction *Place = BB == First ? &*find_if(*BB, Calls) : F.endOf(*BB);
    return mayPlaceBefore(F, L, *Place) ? Place : nullptr;
  }
  return nullptr;
}

// Whether loops that have no safepoint of their own still have one in each iteration.
static bool openCovered(const Facts &F, const Loops &L, const Choice &C) {
  const Blocks Charging = beforeChunks(L);
  return all_of(C.Open, [&](const BasicBlock *Header) {
    const Loop *Open = F.A.LI.getLoopFor(Header);
    return L.shortOf(Open) || isCovered(F, C, *Open, Charging);
  });
}

void preferBehindTests(const Facts &F, const Loops &L, Choice &C, Walked &W) {
  unsigned Tries = MostTries;
  for (Loop *Of : F.A.LI.getLoopsInPreorder()) {
    Instruction *Top = &*Of->getHeader()->getFirstInsertionPt();
    Instruction *Behind =
        Tries != 0 && C.Forced.contains(Top) && F.callsOut(*Of) ? placeBehindTests(F, L, *Of) : nullptr;
    if (!Behind)
      continue;
    Tries--;
    Choice Other = C;
    Other.Forced.remove(Top);
    Other.Forced.insert(Behind);
    Other.Open.insert(Of->getHeader());
    Walked Then = walk(F, L, Other);
    if (Then.Points.size() > W.Points.size() || Then.Longest > std::max(W.Longest, F.Bound) ||
        Then.frequency(F) >= W.frequency(F) || uncoveredCalls(F, Other).size() > uncoveredCalls(F, C).size() ||
        !openCovered(F, L, Other))
      continue;
    C = std::move(Other);
    W = std::move(Then);
  }
}

} // namespace curtail
