#include "choose/choice.h"
#include "choose/longcalls.h"
#include "choose/loops.h"
#include "facts/coldcalls.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"

using namespace llvm;

namespace curtail {

// Whether a block has a safepoint of the choice, or a call that always looks, or never comes back.
static bool looks(const Facts &F, const Choice &C, const BasicBlock &BB) {
  return F.Cold.contains(&BB) || any_of(BB, [&](const Instruction &I) {
           return C.Forced.contains(const_cast<Instruction *>(&I)) || (!isa<InvokeInst>(I) && F.alwaysLooks(I));
         });
}

bool isCovered(const Facts &F, const Choice &C, const Loop &L, const Blocks &Others) {
  SmallSetVector<const BasicBlock *, 16> Reached;
  Reached.insert(L.getHeader());
  for (size_t At = 0; At < Reached.size(); At++) {
    const BasicBlock *BB = Reached[At];
    if (Others.contains(BB) || looks(F, C, *BB))
      continue;
    auto *Invoke = dyn_cast<InvokeInst>(BB->getTerminator());
    for (const BasicBlock *Next : successors(BB)) {
      if (Invoke && Next == Invoke->getNormalDest() && F.alwaysLooks(*Invoke))
        continue;
      if (Next == L.getHeader())
        return false;
      if (L.contains(Next))
        Reached.insert(Next);
    }
  }
  return true;
}

Blocks beforeChunks(const Loops &L) {
  Blocks Before;
  for (const Chunk &C : L.Chunks)
    if (!C.Gate)
      Before.insert(C.Preheader);
  return Before;
}

SmallVector<CallBase *, 4> uncoveredCalls(const Facts &F, const Choice &C) {
  SmallVector<CallBase *, 4> Uncovered;
  const auto Dead = deadEnds(F.F);
  for (Instruction &I : instructions(F.F)) {
    auto *Call = dyn_cast<CallBase>(&I);
    if (Call && F.Cycle.continues(Call->getCalledFunction()) && F.Index.count(I.getParent()) &&
        !Dead.contains(I.getParent()) &&
        none_of(C.Forced, [&](Instruction *Point) { return Point == Call || F.A.DT.dominates(Point, Call); }))
      Uncovered.push_back(Call);
  }
  return Uncovered;
}

// An interpreter's computed goto: code generation copies the dispatch into each handler, as long as it
// is one small block. With a safepoint at its top it would be none.
static bool dispatches(const Loop &L) { return isa<IndirectBrInst>(L.getHeader()->getTerminator()); }

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

namespace {

class Chooser {
public:
  Chooser(const Facts &F, const Loops &L) : F(F), A(F.A), L(L), C(L.Asked) {}
  Choice run();

private:
  void forceLoops();
  bool forceHeader(const Loop &Around);
  bool forceWayBack(const Loop &Around);
  bool forceLatch(const Loop &Around, BasicBlock &Latch);
  void forceIrreducible();
  void forceRecursion();
  void forceCatches();
  void forceTop(BasicBlock &BB);

  const Facts &F;
  const Analyses &A;
  const Loops &L;
  Choice C;
};

} // namespace

// A loop's safepoint goes to the top of its header: the body stays in one piece, with its back edge,
// and so keeps the registers that the compiler finds for it.
bool Chooser::forceHeader(const Loop &Around) {
  BasicBlock *Header = Around.getHeader();
  if (Header->isEHPad() || F.Cold.contains(Header))
    return false;
  Instruction *Top = &*Header->getFirstInsertionPt();
  if (!F.legal(*Top))
    return false;
  C.Forced.insert(Top);
  return true;
}

// Where the top is not allowed: at the latch's end, or anywhere that every iteration through the
// latch passes, the header included: an interpreter's handler without a place for it leaves it to the
// dispatch.
bool Chooser::forceLatch(const Loop &Around, BasicBlock &Latch) {
  for (BasicBlock *BB = &Latch; BB && Around.contains(BB);) {
    // A block of an inner loop would run more often than the latch.
    if (A.LI.getLoopFor(BB) == &Around && !BB->isEHPad())
      for (Instruction *I = BB == &Latch ? F.endOf(*BB) : BB->getTerminator(); I; I = I->getPrevNode())
        if (F.legal(*I)) {
          C.Forced.insert(I);
          if (BB != &Latch)
            C.Open.insert(Around.getHeader());
          return true;
        }
    DomTreeNode *Above = A.DT.getNode(BB)->getIDom();
    BB = Above ? Above->getBlock() : nullptr;
  }
  return false;
}

// A loop with calls, and a way back that is nothing else: there the safepoint is out of the way of
// those that never go back, which are many: loops that try again, or go on with the next of one.
bool Chooser::forceWayBack(const Loop &Around) {
  BasicBlock *Latch = Around.getLoopLatch();
  return Latch && Latch->getSingleSuccessor() && A.LI.getLoopFor(Latch) == &Around && !F.Cold.contains(Latch) &&
         F.callsOut(Around) && forceLatch(Around, *Latch);
}

void Chooser::forceLoops() {
  const Blocks Charging = beforeChunks(L);
  SmallVector<Loop *, 8> All = A.LI.getLoopsInPreorder();
  for (Loop *Each : reverse(All)) { // innermost first: they may do for those around them
    if (L.shortOf(Each) || L.chunkOf(Each))
      continue;
    if (isCovered(F, C, *Each, Charging)) {
      C.Open.insert(Each->getHeader());
      continue;
    }
    if (!dispatches(*Each) && (forceWayBack(*Each) || forceHeader(*Each)))
      continue;
    for (BasicBlock *Latch : waysBack(*Each))
      if (!F.Cold.contains(Latch))
        forceLatch(*Each, *Latch);
  }
}

// Cycles that are no natural loops: a safepoint where a retreating edge arrives.
void Chooser::forceIrreducible() {
  for (BasicBlock *BB : F.Order)
    for (BasicBlock *Next : successors(BB)) {
      if (!F.isBack(BB, Next))
        continue;
      Loop *Natural = A.LI.getLoopFor(Next);
      if (Natural && Natural->getHeader() == Next && Natural->contains(BB))
        continue;
      Instruction *First = &*Next->getFirstInsertionPt();
      if (!Next->isEHPad() && !F.Cold.contains(Next) && F.legal(*First))
        C.Forced.insert(First);
    }
}

// At the beginning of a block, behind what the function's frame is made of.
void Chooser::forceTop(BasicBlock &BB) {
  for (auto I = BB.getFirstInsertionPt(); I != BB.end(); ++I) {
    auto *Alloca = dyn_cast<AllocaInst>(&*I);
    if (Alloca && Alloca->isStaticAlloca())
      continue;
    if (F.legal(*I))
      C.Forced.insert(&*I);
    return;
  }
}

// A recursive function needs one on the way to each call of its cycle; a loop's may do. It goes to
// where these ways part, behind the test that ends the recursion: half of all activations end there.
void Chooser::forceRecursion() {
  BasicBlock *Common = nullptr;
  for (CallBase *Call : uncoveredCalls(F, C))
    Common = Common ? A.DT.findNearestCommonDominator(Common, Call->getParent()) : Call->getParent();
  // Outside of loops, or it would run too often.
  while (Common && (A.LI.getLoopFor(Common) || !F.mayPlaceIn(*Common)))
    Common = A.DT.getNode(Common)->getIDom() ? A.DT.getNode(Common)->getIDom()->getBlock() : nullptr;
  if (Common)
    forceTop(*Common);
}

// Where control comes back to from what never returned: an exception that is caught, `setjmp`. Calls in dead ends
// make no recursion, so a function that goes round by one of them and catches may have no other.
void Chooser::forceCatches() {
  auto Force = [&](Instruction &I) {
    if (!F.Cold.contains(I.getParent()) && F.legal(I))
      C.Forced.insert(&I);
  };
  for (BasicBlock *BB : F.Order) {
    if (catches(*BB))
      Force(*F.endOf(*BB));
    for (Instruction &I : *BB)
      if (auto *Call = dyn_cast<CallInst>(&I); Call && Call->hasFnAttr(Attribute::ReturnsTwice))
        Force(*Call->getNextNode());
  }
}

Choice Chooser::run() {
  forceCatches();
  forceLoops();
  forceIrreducible();
  if (isCalledInLoops(F.F))
    forceTop(F.F.getEntryBlock());
  if (F.Cycle.continues(&F.F))
    forceRecursion();
  return std::move(C);
}

Choice chooseForCycles(const Facts &F, const Loops &L) { return Chooser(F, L).run(); }

} // namespace curtail
