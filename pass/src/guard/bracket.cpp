#include "guard/bracket.h"
#include "guard/critical.h"
#include "guard/unwind.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

using namespace llvm;

namespace curtail {

static void lowerOnUnwind(InvokeInst &Invoke, GlobalVariable &Block) {
  BasicBlock *Pad = Invoke.getUnwindDest();
  if (!Pad->getSinglePredecessor()) {
    SmallVector<BasicBlock *, 2> Parts;
    SplitLandingPadPredecessors(Pad, {Invoke.getParent()}, ".curtail", ".rest", Parts);
    Pad = Invoke.getUnwindDest();
  }
  changeDepthBefore(&*Pad->getFirstInsertionPt(), Block, -1, Invoke.getDebugLoc());
}

void bracketCall(CallBase &Call, GlobalVariable &Block) {
  changeDepthBefore(&Call, Block, 1, Call.getDebugLoc());
  auto *Invoke = dyn_cast<InvokeInst>(&Call);
  if (auto *Plain = dyn_cast<CallInst>(&Call)) {
    Plain->setTailCallKind(CallInst::TCK_NoTail);
    BasicBlock *Pad = mayLeaveBy(*Plain) ? createCleanup(*Call.getFunction()) : nullptr;
    // In C, an exception that leaves the function here leaves the depth raised: no yields, until the
    // runtime resets it when the request ends.
    if (!Pad)
      return changeDepthBefore(Call.getNextNode(), Block, -1, Call.getDebugLoc());
    Invoke = &unwindTo(*Plain, *Pad);
  }
  changeDepthBefore(behind(*Invoke), Block, -1, Invoke->getDebugLoc());
  lowerOnUnwind(*Invoke, Block);
}

void bracketGuards(Function &F, GlobalVariable &Block) {
  SmallVector<CallBase *, 4> Acquired, Released;
  for (Instruction &I : instructions(F)) {
    auto *Call = dyn_cast<CallBase>(&I);
    Function *Callee = Call ? Call->getCalledFunction() : nullptr;
    if (!Callee || isa<InvokeInst>(Call))
      continue;
    if (Callee->getName() == "__cxa_guard_acquire")
      Acquired.push_back(Call);
    else if (Callee->getName() == "__cxa_guard_release" || Callee->getName() == "__cxa_guard_abort")
      Released.push_back(Call);
  }
  for (CallBase *Call : Acquired) {
    IRBuilder<> B(Call->getNextNode());
    B.SetCurrentDebugLocation(Call->getDebugLoc());
    Value *Won = B.CreateICmpNE(Call, ConstantInt::get(Call->getType(), 0));
    changeDepth(B, Block, B.CreateZExt(Won, B.getInt32Ty()));
  }
  for (CallBase *Call : Released)
    changeDepthBefore(Call->getNextNode(), Block, -1, Call->getDebugLoc());
}

} // namespace curtail
