#include "facts/facts.h"
#include "facts/coldcalls.h"
#include "facts/cost.h"
#include "prepare/recursion.h"
#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace curtail {

// What a call to something unseen costs its caller: mostly the callee charges for itself.
static const unsigned UnseenCharge = 10;

// Work between a call and a return that is let pass without a safepoint of its own. A chain of returns can
// therefore be this much times its depth long, and a list's recursion is as deep as the list is long.
static const unsigned Tolerance = 16;

Facts::Facts(Function &F, const Analyses &A, const Summaries &Known, const CallCycle &Cycle, const Functions &Far,
             const Options &O)
    : F(F), A(A), Cycle(Cycle), Opts(O), Bound(O.Bound), Quarter(O.Bound / 4),
      Visible(!F.hasLocalLinkage() || F.hasAddressTaken() || Cycle.continues(&F)), Far(Visible || Far.contains(&F)),
      Cold(coldBlocks(F)), Known(Known) {
  ReversePostOrderTraversal<Function *> Traversal(&F);
  for (BasicBlock *BB : Traversal) {
    Index[BB] = Order.size();
    Order.push_back(BB);
  }
}

Summary Facts::effectOf(const CallBase &Call) const {
  if (isPlainLibraryCall(Call, A.TLI)) {
    unsigned Cost = costOf(Call);
    return {Cost, true, Cost, 0, double(Cost), false};
  }
  const Function *Callee = Call.getCalledFunction();
  auto It = Callee ? Known.find(Callee) : Known.end();
  if (It != Known.end()) {
    const Summary &S = It->second;
    return {S.ToFirst + 5, S.Through, S.ThroughMax + 5, S.FromLast, S.Uncharged + 5, S.MayYield};
  }
  // Not seen, or (in a cycle) not yet: what the convention says. Most have a safepoint, or are much
  // shorter than the quarter that they may be. At a fourth of that, no more than ten come in a row, which
  // is less than three times the bound, as curtail-verify allows, even if none of them has one. What is
  // called through a pointer is mostly shorter still; in a cycle, only the activations that end the
  // recursion have none. Where one stands for several, each has its tolerance.
  const bool Continues = Cycle.continues(Callee);
  const unsigned Levels = Continues ? activationsOf(*Callee) : 1;
  unsigned After = Quarter - std::min(Quarter, Levels * Tolerance);
  unsigned Through = std::min(Quarter, Continues ? Cycle.Through : UsualThrough);
  if (Callee && !Continues)
    Through = std::max(Through, Quarter / 4);
  return {Quarter, true, Through, After, double(UnseenCharge), true};
}

bool Facts::mayYieldAt(const Instruction &I) const { return isRealCall(I) && effectOf(cast<CallBase>(I)).MayYield; }

// From an exception it may come back before a safepoint, and so it may where something that it calls jumps back
// into this function.
bool Facts::alwaysLooks(const Instruction &I) const {
  if (!isRealCall(I) || F.callsFunctionThatReturnsTwice())
    return false;
  Summary E = effectOf(cast<CallBase>(I));
  return E.MayYield && !E.Through;
}

unsigned Facts::costOf(const Instruction &I) const { return curtail::costOf(I, A.TLI, A.TTI); }

unsigned Facts::sizeOf(const Loop &L) const {
  unsigned Size = 0;
  for (const BasicBlock *BB : L.blocks())
    for (const Instruction &I : *BB)
      Size += costOf(I);
  return Size;
}

bool Facts::callsOut(const Loop &L) const {
  return any_of(L.blocks(),
                [&](const BasicBlock *BB) { return any_of(*BB, [&](const Instruction &I) { return mayYieldAt(I); }); });
}

SmallVector<BasicBlock *, 4> Facts::beforeIn(const Loop &L, BasicBlock &BB) const {
  SmallVector<BasicBlock *, 4> Before;
  for (BasicBlock *From : predecessors(&BB))
    if (L.contains(From) && !isBack(From, &BB))
      Before.push_back(From);
  return Before;
}

bool Facts::legal(const Instruction &I) const {
  if (isa<PHINode>(I) || I.isEHPad() || Opts.KeepOut.containsPlace(I))
    return false;
  // Nothing may come between a musttail call and its return.
  auto *Call = dyn_cast_or_null<CallInst>(I.getPrevNode());
  return !(Call && Call->isMustTailCall());
}

// The call that takes the place of a return.
static CallInst *tailCallOf(const ReturnInst &Return) {
  const Instruction *Previous = Return.getPrevNode();
  while (Previous && isa<BitCastInst>(Previous))
    Previous = Previous->getPrevNode();
  auto *Call = const_cast<CallInst *>(dyn_cast_or_null<CallInst>(Previous));
  return Call && Call->isTailCall() && !isa<IntrinsicInst>(Call) ? Call : nullptr;
}

Functions returningFar(Module &M) {
  Functions Far;
  SmallVector<Function *, 16> Work;
  auto Add = [&](Function &F) {
    if (!F.isDeclaration() && Far.insert(&F).second)
      Work.push_back(&F);
  };
  for (Function &F : M)
    if (!F.hasLocalLinkage() || F.hasAddressTaken())
      Add(F);
  while (!Work.empty())
    for (BasicBlock &BB : *Work.pop_back_val())
      if (auto *Return = dyn_cast<ReturnInst>(BB.getTerminator()))
        if (CallInst *Call = tailCallOf(*Return); Call && Call->getCalledFunction())
          Add(*Call->getCalledFunction());
  return Far;
}

Instruction *Facts::endOf(BasicBlock &BB) const {
  Instruction *End = BB.getTerminator();
  if (auto *Return = dyn_cast<ReturnInst>(End)) {
    Instruction *Call = tailCallOf(*Return);
    return Call ? Call : End;
  }
  auto *Branch = dyn_cast<BranchInst>(End);
  if (!Branch || !Branch->isConditional())
    return End;
  auto *Condition = dyn_cast<CmpInst>(Branch->getCondition());
  if (!Condition || Condition->getParent() != &BB || !Condition->hasOneUse())
    return End;
  Condition->moveBefore(End->getIterator());
  return Condition;
}

} // namespace curtail
