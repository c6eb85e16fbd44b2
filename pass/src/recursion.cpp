#include "recursion.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace llvm;

namespace curtail {

// Instructions. What is larger has work enough for a safepoint of its own.
static const unsigned MostBefore = 64, MostAfter = 256;
// Where a function calls itself once, each round adds one activation.
static const unsigned Rounds = 3;

static SmallVector<CallInst *, 4> callsOf(Function &F) {
  SmallVector<CallInst *, 4> Calls;
  for (Instruction &I : instructions(F))
    if (auto *Call = dyn_cast<CallInst>(&I); Call && Call->getCalledFunction() == &F)
      Calls.push_back(Call);
  return Calls;
}

static bool possible(const Function &F) {
  if (F.hasOptNone() || F.hasMinSize() || F.hasFnAttribute(Attribute::NoInline) || F.isVarArg() ||
      F.isPresplitCoroutine() || F.isInterposable() || F.callsFunctionThatReturnsTwice() ||
      F.getInstructionCount() > MostBefore)
    return false;
  for (const BasicBlock &BB : F)
    if (BB.hasAddressTaken())
      return false;
  return none_of(instructions(F), [](const Instruction &I) {
    auto *Alloca = dyn_cast<AllocaInst>(&I);
    auto *Call = dyn_cast<CallBase>(&I);
    return (Alloca && !Alloca->isStaticAlloca()) ||
           (Call && (Call->isMustTailCall() || Call->cannotDuplicate() || Call->isInlineAsm()));
  });
}

bool unrollRecursion(Function &F, FunctionAnalysisManager &FAM) {
  if (!possible(F))
    return false;
  unsigned Calls = callsOf(F).size();
  if (Calls == 0 || F.getInstructionCount() * (1 + Calls) > MostAfter)
    return false;
  ValueToValueMapTy Map;
  Function *Original = CloneFunction(&F, Map);
  Original->setLinkage(GlobalValue::InternalLinkage);
  // In the copy, too, the calls go to the function itself.
  for (Instruction &I : instructions(*Original))
    if (auto *Call = dyn_cast<CallBase>(&I); Call && Call->getCalledFunction() == Original)
      Call->setCalledFunction(&F);
  bool Changed = false;
  for (unsigned Round = 0; Round < (Calls == 1 ? Rounds : 1); Round++)
    for (CallInst *Call : callsOf(F)) {
      InlineFunctionInfo Info;
      Call->setCalledFunction(Original);
      bool Inlined = InlineFunction(*Call, Info).isSuccess();
      Changed |= Inlined;
      if (!Inlined)
        Call->setCalledFunction(&F);
    }
  Original->eraseFromParent();
  if (!Changed)
    return false;
  FAM.invalidate(F, PreservedAnalyses::none());
  FunctionPassManager Clean;
  Clean.addPass(EarlyCSEPass());
  Clean.addPass(InstCombinePass());
  Clean.addPass(SimplifyCFGPass());
  FAM.invalidate(F, Clean.run(F, FAM));
  return true;
}

} // namespace curtail
