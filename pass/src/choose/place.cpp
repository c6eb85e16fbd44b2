#include "choose/place.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include <tuple>

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

// A loop's safepoint goes from the top of the header, which is passed by ways, too, that never go round, behind the
// tests that end the loop. Where calls are, and the function then has no more safepoints, and they run less often.
// `W` is what comes of `C`.
static void preferBehindTests(const Facts &F, const Loops &L, Choice &C, Walked &W) {
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

// Work between the last safepoint and the return is charged by a safepoint that runs once in every activation if
// there is one, else by the callers that see this function.
static void chargeRemainder(const Facts &F, Walked &W) {
  for (Point &Safepoint : W.Points) {
    BasicBlock *BB = Safepoint.Before->getParent();
    bool Always = !F.A.LI.getLoopFor(BB) && all_of(F.Order, [&](BasicBlock *Exit) {
      return !isa<ReturnInst>(Exit->getTerminator()) || F.A.DT.dominates(BB, Exit);
    });
    if (!Always)
      continue;
    Safepoint.Mean += W.S.Uncharged;
    W.S.Uncharged = 0;
    return;
  }
}

static Plan plan(const Facts &F) {
  Plan P;
  Loops L(F);
  Choice C = chooseForCycles(F, L);
  // Short, and without safepoints of its own: the callers account for it.
  const bool Plain = C.Forced.empty() && L.Chunks.empty();
  Walked W = walk(F, L, C, /*Placing=*/!Plain);
  const bool Placing = !Plain || W.Longest > (F.Far ? F.Quarter : F.Bound / 2);
  if (Placing) {
    if (Plain)
      W = walk(F, L, C);
    preferBehindTests(F, L, C, W);
    chargeRemainder(F, W);
  }
  P.LongCalls = findLongCalls(F);
  for (auto [At, Cut] : enumerate(L.Chunks))
    std::tie(Cut.Mean, Cut.Before) = W.Chunks[At];
  P.Points = std::move(W.Points);
  P.Chunks = std::move(L.Chunks);
  P.Short = std::move(L.Short);
  P.Longest = W.Longest;
  P.S = W.S;
  P.S.MayYield |= !P.Points.empty() || !P.Chunks.empty() || !P.LongCalls.empty();
  return P;
}

static SmallVector<Planned, 1> planAll(ArrayRef<Function *> Order, const CallCycle &Cycle, const Functions &Far,
                                       function_ref<Analyses(Function &)> Of, Summaries &Known) {
  SmallVector<Planned, 1> All;
  for (Function *F : Order)
    Known.erase(F);
  for (Function *F : Order) {
    All.push_back({F, plan(Facts(*F, Of(*F), Known, Cycle, Far, options()))});
    if (!F->isInterposable())
      Known[F] = All.back().P.S;
  }
  return All;
}

SmallVector<Planned, 1> planTogether(ArrayRef<Function *> Order, CallCycle Cycle, const Functions &Far,
                                     function_ref<Analyses(Function &)> Of, Summaries &Known) {
  auto All = planAll(Order, Cycle, Far, Of, Known);
  auto IsLonger = [&](const Planned &Each) {
    return Cycle.continues(Each.F) && Each.P.S.Through && Each.P.S.ThroughMax > Cycle.Through;
  };
  if (none_of(All, IsLonger))
    return All;
  Cycle.Through = options().Bound / 4;
  return planAll(Order, Cycle, Far, Of, Known);
}

} // namespace curtail
