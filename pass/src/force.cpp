// A part of Placer: the safepoints of cycles. Every loop that is neither short nor chunked has one, and
// so has every recursion.
#include "coldcalls.h"
#include "cost.h"
#include "place.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"

using namespace llvm;

namespace curtail {

// A loop's safepoint goes to the top of its header: the body stays in one piece, with its back edge,
// and so keeps the registers that the compiler finds for it.
bool Placer::forceHeader(Loop &L) {
  BasicBlock *Header = L.getHeader();
  if (Header->isEHPad() || Cold.contains(Header))
    return false;
  Instruction *Top = &*Header->getFirstInsertionPt();
  if (!legal(*Top))
    return false;
  Forced.insert(Top);
  return true;
}

// Where the top is not allowed: at the latch's end, or anywhere that every iteration through the
// latch passes, the header included: an interpreter's handler without a place for it leaves it to the
// dispatch.
bool Placer::forceLatch(Loop &L, BasicBlock &Latch) {
  for (BasicBlock *BB = &Latch; BB && L.contains(BB);) {
    // A block of an inner loop would run more often than the latch.
    if (A.LI.getLoopFor(BB) == &L && !BB->isEHPad())
      for (Instruction *I = BB == &Latch ? endOf(*BB) : BB->getTerminator(); I; I = I->getPrevNode())
        if (legal(*I)) {
          Forced.insert(I);
          if (BB != &Latch)
            Open.insert(L.getHeader());
          return true;
        }
    DomTreeNode *Above = A.DT.getNode(BB)->getIDom();
    BB = Above ? Above->getBlock() : nullptr;
  }
  return false;
}

// An interpreter's computed goto: code generation copies the dispatch into each handler, as long as it
// is one small block. With a safepoint at its top it would be none.
static bool dispatches(const Loop &L) {
  return isa<IndirectBrInst>(L.getHeader()->getTerminator());
}

// Where the ways back begin: in the latches; of an interpreter, at the ends of its handlers, where a
// block that only joins them is none.
static SmallVector<BasicBlock *, 4> waysBack(const Loop &L) {
  SmallVector<BasicBlock *, 4> Latches, Ends;
  L.getLoopLatches(Latches);
  if (!dispatches(L))
    return Latches;
  for (BasicBlock *Latch : Latches) {
    if (&*Latch->getFirstNonPHIIt() == Latch->getTerminator() && Latch->getSingleSuccessor())
      append_range(Ends, predecessors(Latch));
    else
      Ends.push_back(Latch);
  }
  return Ends;
}

// A loop with calls, and a way back that is nothing else: there the safepoint is out of the way of
// those that never go back, which are many: loops that try again, or go on with the next of one.
bool Placer::forceWayBack(Loop &L) {
  BasicBlock *Latch = L.getLoopLatch();
  return Latch && Latch->getSingleSuccessor() && A.LI.getLoopFor(Latch) == &L &&
         !Cold.contains(Latch) && callsOut(L) && forceLatch(L, *Latch);
}

bool Placer::callsOut(const Loop &L) const {
  return any_of(L.blocks(), [&](const BasicBlock *BB) {
    return any_of(*BB, [&](const Instruction &I) {
      return isRealCall(I) && effectOf(cast<CallBase>(I)).MayYield;
    });
  });
}

// Whether a call comes back behind a safepoint only. From an exception it may come back before one, and so it may
// where something that it calls jumps back into this function.
bool Placer::alwaysLooks(const Instruction &I) const {
  if (!isRealCall(I) || F.callsFunctionThatReturnsTwice())
    return false;
  Effect E = effectOf(cast<CallBase>(I));
  return E.MayYield && !E.Through;
}

// Whether a block has a forced safepoint, or such a call, or never comes back.
bool Placer::looks(const BasicBlock &BB) const {
  return Cold.contains(&BB) || any_of(BB, [&](const Instruction &I) {
           return Forced.contains(const_cast<Instruction *>(&I)) || (!isa<InvokeInst>(I) && alwaysLooks(I));
         });
}

// Whether each way through an iteration of a loop comes to such a block, or to one in `Others`.
bool Placer::isCovered(const Loop &L, const Blocks &Others) const {
  SmallSetVector<const BasicBlock *, 16> Reached;
  Reached.insert(L.getHeader());
  for (size_t At = 0; At < Reached.size(); At++) {
    const BasicBlock *BB = Reached[At];
    if (Others.contains(BB) || looks(*BB))
      continue;
    auto *Invoke = dyn_cast<InvokeInst>(BB->getTerminator());
    for (const BasicBlock *Next : successors(BB)) {
      if (Invoke && Next == Invoke->getNormalDest() && alwaysLooks(*Invoke))
        continue;
      if (Next == L.getHeader())
        return false;
      if (L.contains(Next))
        Reached.insert(Next);
    }
  }
  return true;
}

// Before loops that look at the budget on entry.
Placer::Blocks Placer::beforeChunks() const {
  Blocks Before;
  for (const Chunk &C : P.Chunks)
    if (isSelf(C))
      Before.insert(C.Preheader);
  return Before;
}

void Placer::forceLoopPoints() {
  const Blocks Charging = beforeChunks();
  SmallVector<Loop *, 8> Loops = A.LI.getLoopsInPreorder();
  for (Loop *L : reverse(Loops)) { // innermost first: they may do for those around them
    if (Free.count(L) || chunkOf(L) >= 0)
      continue;
    if (isCovered(*L, Charging)) {
      Open.insert(L->getHeader());
      continue;
    }
    if (!dispatches(*L) && (forceWayBack(*L) || forceHeader(*L)))
      continue;
    bool All = true;
    for (BasicBlock *Latch : waysBack(*L))
      All &= Cold.contains(Latch) || forceLatch(*L, *Latch);
    P.LoopsWithout += !All;
  }
}

// Cycles that are no natural loops: a safepoint where a retreating edge arrives.
void Placer::forceIrreducible() {
  for (BasicBlock *BB : Order)
    for (BasicBlock *Next : successors(BB)) {
      if (Index.lookup(Next) > Index.lookup(BB))
        continue;
      Loop *L = A.LI.getLoopFor(Next);
      if (L && L->getHeader() == Next && L->contains(BB))
        continue;
      Instruction *First = &*Next->getFirstInsertionPt();
      if (!Next->isEHPad() && !Cold.contains(Next) && legal(*First))
        Forced.insert(First);
    }
}

// The calls of a recursion that no safepoint of a cycle lies before.
SmallVector<CallBase *, 4> Placer::uncoveredCalls() const {
  SmallVector<CallBase *, 4> Uncovered;
  const auto Dead = deadEnds(F);
  for (Instruction &I : instructions(F)) {
    auto *Call = dyn_cast<CallBase>(&I);
    if (Call && Cycle.continues(Call->getCalledFunction()) &&
        Index.count(I.getParent()) && !Dead.contains(I.getParent()) &&
        none_of(Forced, [&](Instruction *Point) { return Point == Call || A.DT.dominates(Point, Call); }))
      Uncovered.push_back(Call);
  }
  return Uncovered;
}

// At the beginning of a block, behind what the function's frame is made of.
void Placer::forceTop(BasicBlock &BB) {
  for (auto I = BB.getFirstInsertionPt(); I != BB.end(); ++I) {
    auto *Alloca = dyn_cast<AllocaInst>(&*I);
    if (Alloca && Alloca->isStaticAlloca())
      continue;
    if (legal(*I))
      Forced.insert(&*I);
    return;
  }
}

// A recursive function needs one on the way to each call of its cycle; a loop's may do. It goes to
// where these ways part, behind the test that ends the recursion: half of all activations end there.
void Placer::forceRecursion() {
  BasicBlock *Common = nullptr;
  for (CallBase *Call : uncoveredCalls())
    Common = Common ? A.DT.findNearestCommonDominator(Common, Call->getParent()) : Call->getParent();
  // Outside of loops, or it would run too often.
  while (Common && (A.LI.getLoopFor(Common) || Common->isEHPad() || !mayPlaceIn(*Common)))
    Common = A.DT.getNode(Common)->getIDom() ? A.DT.getNode(Common)->getIDom()->getBlock() : nullptr;
  if (!Common)
    return;
  forceTop(*Common);
}

// Where control comes back to from what never returned: an exception that is caught, `setjmp`. Calls in dead ends
// make no recursion, so a function that goes round by one of them and catches may have no other.
void Placer::forceCatches() {
  auto Force = [&](Instruction &I) {
    if (!Cold.contains(I.getParent()) && legal(I))
      Forced.insert(&I);
  };
  for (BasicBlock *BB : Order) {
    if (catches(*BB))
      Force(*endOf(*BB));
    for (Instruction &I : *BB)
      if (auto *Call = dyn_cast<CallInst>(&I); Call && Call->hasFnAttr(Attribute::ReturnsTwice))
        Force(*Call->getNextNode());
  }
}

} // namespace curtail
