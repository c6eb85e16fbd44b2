#include "emit/copy.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/SSAUpdater.h"

using namespace llvm;

namespace curtail {

// Where a use takes its value.
static const BasicBlock *placeOf(const Use &U) {
  auto *User = cast<Instruction>(U.getUser());
  auto *Phi = dyn_cast<PHINode>(User);
  return Phi ? Phi->getIncomingBlock(U) : User->getParent();
}

void copyLoop(const Loop &L, ValueToValueMapTy &Copies) {
  Function *F = L.getHeader()->getParent();
  SmallVector<BasicBlock *, 8> Blocks;
  SmallPtrSet<const BasicBlock *, 16> Either(L.block_begin(), L.block_end());
  for (BasicBlock *BB : L.blocks()) {
    Blocks.push_back(CloneBasicBlock(BB, Copies, ".curtail", F));
    Copies[BB] = Blocks.back();
    Either.insert(Blocks.back());
  }
  remapInstructionsInBlocks(Blocks, Copies);

  for (BasicBlock *BB : L.blocks())
    for (BasicBlock *Next : successors(BB)) {
      if (L.contains(Next))
        continue;
      for (PHINode &Phi : Next->phis()) {
        Value *Left = Phi.getIncomingValueForBlock(BB), *Copy = Copies.lookup(Left);
        Phi.addIncoming(Copy ? Copy : Left, cast<BasicBlock>(Copies.lookup(BB)));
      }
    }

  for (BasicBlock *BB : L.blocks())
    for (Instruction &I : *BB) {
      SmallVector<Use *, 4> Behind;
      for (Use &U : I.uses())
        if (!Either.contains(placeOf(U)))
          Behind.push_back(&U);
      if (Behind.empty())
        continue;
      auto *Copy = cast<Instruction>(Copies.lookup(&I));
      SSAUpdater Updater;
      Updater.Initialize(I.getType(), I.getName());
      Updater.AddAvailableValue(BB, &I);
      Updater.AddAvailableValue(Copy->getParent(), Copy);
      for (Use *U : Behind)
        Updater.RewriteUse(*U);
    }
}

} // namespace curtail
