// A part of Placer: a loop's safepoint goes from the top of the header, which runs that never go round pass,
// too, to behind the tests that end the loop.
#include "cost.h"
#include "place.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Instructions.h"

using namespace llvm;

namespace curtail {

// Each try walks the whole function.
static const unsigned MostTries = 128;

Placer::Choice Placer::choice() const {
  return {Forced, Open, frequencyOfPoints(), P.Points.size(), std::max(P.Longest, Bound)};
}

bool Placer::isBetterThan(const Choice &Other) const {
  return frequencyOfPoints() < Other.Frequency && P.Longest <= Other.Longest;
}

void Placer::takeBack(const Choice &To) {
  Forced = To.Forced;
  Open = To.Open;
  settle();
}

// The last place of each turn of a loop before its first call or inner loop: behind the tests that end it
// before it does much. Null if that is the header, or there is none.
Instruction *Placer::placeBehindTests(const Loop &L) const {
  BasicBlock *Latch = L.getLoopLatch();
  auto Calls = [&](const Instruction &I) {
    return isRealCall(I) && effectOf(cast<CallBase>(I)).MayYield;
  };
  BasicBlock *First = nullptr;
  for (BasicBlock *BB : L.blocks())
    if ((A.LI.getLoopFor(BB) != &L || any_of(*BB, Calls)) &&
        (!First || Index.lookup(BB) < Index.lookup(First)))
      First = BB;
  if (!First)
    return nullptr;
  for (BasicBlock *BB = Latch; BB && BB != L.getHeader(); BB = A.DT.getNode(BB)->getIDom()->getBlock()) {
    if (Index.lookup(BB) > Index.lookup(First) || A.LI.getLoopFor(BB) != &L)
      continue;
    Instruction *Place = BB == First ? &*find_if(*BB, Calls) : endOf(*BB);
    return mayPlaceBefore(*Place) ? Place : nullptr;
  }
  return nullptr;
}

// Whether loops that have no safepoint of their own still have one in each iteration.
bool Placer::openCovered() const {
  const Blocks Charging = beforeChunks();
  return all_of(Open, [&](const BasicBlock *Header) {
    const Loop *L = A.LI.getLoopFor(Header);
    return Free.count(L) || isCovered(*L, Charging);
  });
}

// Where calls are, the safepoint of a loop goes behind the tests that end it, if the function then has no
// more of them, and they run less often.
void Placer::preferBehindTests() {
  unsigned Tries = MostTries;
  for (Loop *L : A.LI.getLoopsInPreorder()) {
    Instruction *Top = &*L->getHeader()->getFirstInsertionPt();
    Instruction *Behind = Tries != 0 && Forced.contains(Top) && callsOut(*L) ? placeBehindTests(*L) : nullptr;
    if (!Behind)
      continue;
    const Choice Before = choice();
    const size_t Uncovered = uncoveredCalls().size();
    Tries--;
    Forced.remove(Top);
    Forced.insert(Behind);
    Open.insert(L->getHeader());
    settle();
    if (P.Points.size() > Before.Points || uncoveredCalls().size() > Uncovered || !isBetterThan(Before) ||
        !openCovered())
      takeBack(Before);
  }
}

} // namespace curtail
