#include "prepare/recursion.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
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
// A loop of so many iterations is short.
static const unsigned MostTrips = 64;
// Where a function calls itself once, each round adds one activation.
static const unsigned Rounds = 3;

static constexpr StringLiteral Activations = "curtail-activations";

unsigned activationsOf(const Function &F) { return unsigned(F.getFnAttributeAsParsedInteger(Activations, 1)); }

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

// A loop with calls that is known to be short needs no safepoint but before these. Four of them in one
// another would be too long, and have not got registers enough.
static bool isShort(const Loop &L, ScalarEvolution &SE) {
  unsigned Trips = SE.getSmallConstantMaxTripCount(&L);
  return Trips != 0 && Trips <= MostTrips;
}

bool unrollRecursion(Function &F, FunctionAnalysisManager &FAM) {
  const auto Calls = callsOf(F);
  if (Calls.empty() || !possible(F) || F.getInstructionCount() * (1 + Calls.size()) > MostAfter)
    return false;
  auto &LI = FAM.getResult<LoopAnalysis>(F);
  auto &SE = FAM.getResult<ScalarEvolutionAnalysis>(F);
  bool InLoop = false;
  for (const CallInst *Call : Calls) {
    const Loop *L = LI.getLoopFor(Call->getParent());
    if (L && isShort(*L, SE))
      return false;
    InLoop |= L != nullptr;
  }
  ValueToValueMapTy Map;
  Function *Original = CloneFunction(&F, Map);
  Original->setLinkage(GlobalValue::InternalLinkage);
  // In the copy, too, the calls go to the function itself.
  for (Instruction &I : instructions(*Original))
    if (auto *Call = dyn_cast<CallBase>(&I); Call && Call->getCalledFunction() == Original)
      Call->setCalledFunction(&F);
  bool Changed = false;
  const unsigned Inlined = Calls.size() == 1 ? Rounds : 1;
  for (unsigned Round = 0; Round < Inlined; Round++)
    for (CallInst *Call : callsOf(F)) {
      InlineFunctionInfo Info;
      Call->setCalledFunction(Original);
      bool Done = InlineFunction(*Call, Info).isSuccess();
      Changed |= Done;
      if (!Done)
        Call->setCalledFunction(&F);
    }
  Original->eraseFromParent();
  if (!Changed)
    return false;
  // Without loops, all that is open may return in a row.
  if (InLoop)
    F.addFnAttr(Activations, std::to_string(1 + Inlined));
  FAM.invalidate(F, PreservedAnalyses::none());
  FunctionPassManager Clean;
  Clean.addPass(EarlyCSEPass());
  Clean.addPass(InstCombinePass());
  Clean.addPass(SimplifyCFGPass());
  FAM.invalidate(F, Clean.run(F, FAM));
  return true;
}

} // namespace curtail
