#include "guard/unwind.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Local.h"

using namespace llvm;

namespace curtail {

bool mayLeaveBy(const CallInst &Call) {
  return !Call.doesNotThrow() && !Call.getFunction()->doesNotThrow() && !Call.isMustTailCall() && !Call.isInlineAsm() &&
         !isa<IntrinsicInst>(Call);
}

// Cleanups mean the same to all of them.
static Constant *personalityFor(const Function &F) {
  if (F.hasPersonalityFn())
    return F.getPersonalityFn();
  for (const char *Name : {"rust_eh_personality", "__gxx_personality_v0"})
    if (Function *Known = F.getParent()->getFunction(Name))
      return Known;
  return nullptr;
}

BasicBlock *createCleanup(Function &F) {
  Constant *Personality = personalityFor(F);
  if (!Personality)
    return nullptr;
  F.setPersonalityFn(Personality);
  LLVMContext &C = F.getContext();
  BasicBlock *Pad = BasicBlock::Create(C, "curtail.unwind", &F);
  IRBuilder<> B(Pad);
  if (DISubprogram *In = F.getSubprogram())
    B.SetCurrentDebugLocation(DILocation::get(C, 0, 0, In));
  LandingPadInst *Exception = B.CreateLandingPad(StructType::get(B.getPtrTy(), B.getInt32Ty()), 0);
  Exception->setCleanup(true);
  B.CreateResume(Exception);
  return Pad;
}

Instruction *behind(Instruction &I) {
  auto *Invoke = dyn_cast<InvokeInst>(&I);
  if (!Invoke)
    return I.getNextNode();
  BasicBlock *Normal = Invoke->getNormalDest();
  if (!Normal->getSinglePredecessor())
    Normal = SplitEdge(Invoke->getParent(), Normal);
  return &*Normal->getFirstInsertionPt();
}

InvokeInst &unwindTo(CallInst &Call, BasicBlock &Pad) {
  BasicBlock *From = Call.getParent();
  changeToInvokeAndSplitBasicBlock(&Call, &Pad);
  return *cast<InvokeInst>(From->getTerminator());
}

} // namespace curtail
