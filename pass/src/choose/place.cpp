#include "choose/place.h"
#include "choose/behind.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include <tuple>

using namespace llvm;

namespace curtail {

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

// Calls that may yield while a thread-local address is held.
static SmallVector<CallBase *, 4> findBracketed(const Facts &F) {
  SmallVector<CallBase *, 4> Bracketed;
  if (!F.Locals.any())
    return Bracketed;
  for (Instruction &I : instructions(F.F)) {
    auto *Call = dyn_cast<CallBase>(&I);
    if (Call && !Call->isMustTailCall() && F.mayYieldAt(I) && F.Locals.heldDuring(*Call))
      Bracketed.push_back(Call);
  }
  return Bracketed;
}

Plan plan(const Facts &F) {
  Plan P;
  Loops L(F);
  L.findStalls();
  L.chooseNests();
  Choice C = chooseForCycles(F, L, P.LoopsWithout);
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
  P.Bracketed = findBracketed(F);
  P.LongCalls = findLongCalls(F, L);
  L.chooseCopies(P.LongCalls);
  for (auto [At, Cut] : enumerate(L.Chunks))
    std::tie(Cut.Mean, Cut.Before) = W.Chunks[At];
  P.Points = std::move(W.Points);
  P.Chunks = std::move(L.Chunks);
  P.Nests = std::move(L.Nests);
  P.Short = std::move(L.Short);
  P.Longest = W.Longest;
  P.S = W.S;
  P.S.MayYield |= !P.Points.empty() || !P.Chunks.empty() || !P.LongCalls.empty();
  return P;
}

} // namespace curtail
