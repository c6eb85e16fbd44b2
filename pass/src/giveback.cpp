// Leaving a loop that was charged as a whole before its end: what was charged for the iterations that
// will not come is given back (chunk.cpp says for which loops).
#include "emitter.h"
#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/IR/CFG.h"

using namespace llvm;

namespace curtail {

// A block on the way from one block to another, however many of a switch's cases take it.
static BasicBlock *splitAll(BasicBlock *From, BasicBlock *To) {
  auto *Edge = BasicBlock::Create(To->getContext(), "curtail.early", To->getParent(), To);
  BranchInst::Create(To, Edge)->setDebugLoc(From->getTerminator()->getDebugLoc());
  From->getTerminator()->replaceSuccessorWith(To, Edge);
  for (PHINode &Phi : To->phis()) {
    Phi.setIncomingBlock(Phi.getBasicBlockIndex(From), Edge);
    while (Phi.getBasicBlockIndex(From) >= 0)
      Phi.removeIncomingValue(From);
  }
  return Edge;
}

// On the way out of `Blocks`, a loop or its copy, before its end: gives back what was charged for the
// iterations that will not come. `Index`: as Chunk has it; `End`: the counter at the last latch.
void Emitter::giveBack(const Chunk &C, ArrayRef<BasicBlock *> Blocks, const BasicBlock *Latch,
                       Value *Index, Value *End) {
  SmallSetVector<std::pair<BasicBlock *, BasicBlock *>, 4> Exits;
  for (BasicBlock *BB : Blocks)
    for (BasicBlock *Next : successors(BB))
      if (BB != Latch && !is_contained(Blocks, Next) && !leadsNowhere(Next))
        Exits.insert({BB, Next});
  // From the index to the end is a multiple of the step, and it is divided by that modulo the width: a
  // shift, and a product with the inverse.
  const APInt &Step = cast<SCEVConstant>(C.Step)->getAPInt();
  unsigned Bits = Step.getBitWidth(), Shift = Step.countr_zero();
  APInt Inverse = Step.ashr(Shift).multiplicativeInverse();
  for (auto [BB, Next] : Exits) {
    BasicBlock *Edge = splitAll(BB, Next);
    Builder B(Edge->getTerminator(), BB->getTerminator());
    auto Number = [&](Value *V) {
      return V->getType()->isPointerTy() ? B.CreatePtrToInt(V, B.getIntNTy(Bits)) : V;
    };
    Value *Way = B.CreateSub(B.CreateSub(Number(End), Number(Index)), B.getInt(C.Ahead));
    Value *Left = B.CreateMul(B.CreateLShr(Way, Shift), B.getInt(Inverse));
    Left = B.CreateAnd(Left, B.getInt(APInt::getLowBitsSet(Bits, Bits - Shift)));
    Value *Work = B.CreateMul(B.CreateZExt(Left, B.getInt64Ty()), Ready[&C - P.Chunks.begin()].Work);
    storeBudget(B, B.CreateAdd(loadBudget(B, C.Nest), Work), C.Nest);
  }
}

} // namespace curtail
