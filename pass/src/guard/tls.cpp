#include "guard/tls.h"
#include "guard/critical.h"
#include "guard/unwind.h"
#include "options.h"
#include "prepare/retake.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

using namespace llvm;

namespace curtail {

bool isThreadLocalAddress(const Instruction &I) {
  auto *Intrinsic = dyn_cast<IntrinsicInst>(&I);
  return Intrinsic && Intrinsic->getIntrinsicID() == Intrinsic::threadlocal_address;
}

bool isDerivedAddress(const Instruction &I) {
  return isa<GetElementPtrInst, CastInst, PHINode, SelectInst, FreezeInst>(I);
}

// The address of errno is the same wherever the compiler asks for it, unless the fiber migrates.
static bool isSource(const Instruction &I) {
  if (isThreadLocalAddress(I))
    return true;
  auto *Call = dyn_cast<CallBase>(&I);
  return Call && Call->getCalledFunction() && options().Migratable != Migration::No &&
         Call->getCalledFunction()->getName() == "__errno_location";
}

// What std::call_once hands over is in use until pthread_once has been called.
void ThreadLocalLiveness::findOnceCall(const Instruction &Source) {
  auto *Intrinsic = dyn_cast<IntrinsicInst>(&Source);
  if (!Intrinsic || !isOnceArgument(*cast<GlobalValue>(Intrinsic->getArgOperand(0))))
    return;
  for (const Instruction *I = &Source; I; I = I->getNextNode())
    if (auto *Call = dyn_cast<CallBase>(I);
        Call && Call->getCalledFunction() && Call->getCalledFunction()->getName() == "pthread_once")
      HandedOver[I].push_back(&Source);
}

void ThreadLocalLiveness::findDerived(const Function &F) {
  SmallVector<const Instruction *, 8> Work;
  for (const Instruction &I : instructions(F))
    if (isSource(I) && Derived.insert(&I).second) {
      findOnceCall(I);
      Work.push_back(&I);
    }
  while (!Work.empty()) {
    const Instruction *I = Work.pop_back_val();
    for (const User *U : I->users()) {
      auto *Use = dyn_cast<Instruction>(U);
      if (Use && isDerivedAddress(*Use) && Derived.insert(Use).second)
        Work.push_back(Use);
    }
  }
}

static const GlobalValue *variableOf(const Instruction &Access) {
  const Value *Address = getLoadStorePointerOperand(&Access);
  while (Address && isa<GetElementPtrInst, CastInst>(Address))
    Address = cast<Instruction>(Address)->getOperand(0);
  auto *Source = dyn_cast_or_null<IntrinsicInst>(Address);
  return Source && isSource(*Source) ? cast<GlobalValue>(Source->getArgOperand(0)) : nullptr;
}

// Where the address is not held from a read to a write, the value must be: what others write in
// between would be lost.
void ThreadLocalLiveness::findInFlight(const Function &F) {
  DenseMap<const GlobalValue *, SmallVector<const Instruction *, 4>> Reads;
  DenseMap<const GlobalValue *, SmallVector<const StoreInst *, 4>> Written;
  for (const Instruction &I : instructions(F))
    if (const GlobalValue *Of = variableOf(I); Of && !isIndifferent(*Of)) {
      if (auto *Store = dyn_cast<StoreInst>(&I))
        Written[Of].push_back(Store);
      else
        Reads[Of].push_back(&I);
    }
  for (auto &[Of, Stores] : Written) {
    Values From;
    SmallVector<const Instruction *, 16> Work(Reads[Of].begin(), Reads[Of].end());
    while (!Work.empty()) {
      const Instruction *I = Work.pop_back_val();
      if (From.insert(I).second)
        for (const User *U : I->users())
          Work.push_back(cast<Instruction>(U));
    }
    auto Uses = [&](const Instruction &User, const Value *V) {
      if (auto *I = dyn_cast<Instruction>(V); I && From.contains(I) && InFlight.insert({I, &User}).second)
        Work.push_back(I);
    };
    for (const StoreInst *Store : Stores)
      Uses(*Store, Store->getValueOperand());
    while (!Work.empty()) {
      const Instruction *I = Work.pop_back_val();
      for (const Value *Operand : I->operands())
        Uses(*I, Operand);
    }
  }
}

bool ThreadLocalLiveness::counts(const Instruction &Value, const Instruction &Use) const {
  return Derived.contains(&Value) || InFlight.contains({&Value, &Use});
}

void ThreadLocalLiveness::step(const Instruction &I, Values &Live) const {
  Live.erase(&I);
  if (isa<PHINode>(I))
    return; // a phi uses its operands at the end of the predecessors
  for (const Value *Operand : I.operands())
    if (auto *D = dyn_cast<Instruction>(Operand))
      if (counts(*D, I))
        Live.insert(D);
  if (auto It = HandedOver.find(&I); It != HandedOver.end())
    Live.insert(It->second.begin(), It->second.end());
}

void ThreadLocalLiveness::findLive(const Function &F) {
  SmallVector<const BasicBlock *, 32> Blocks;
  for (const BasicBlock &BB : F)
    Blocks.push_back(&BB);
  for (bool Changed = true; Changed;) {
    Changed = false;
    for (const BasicBlock *BB : reverse(Blocks)) {
      Values Out;
      for (const BasicBlock *Next : successors(BB)) {
        Values Live = LiveOut[Next];
        for (const Instruction &I : reverse(*Next))
          step(I, Live);
        Out.insert(Live.begin(), Live.end());
        for (const PHINode &Phi : Next->phis())
          if (auto *D = dyn_cast<Instruction>(Phi.getIncomingValueForBlock(BB)))
            if (counts(*D, Phi))
              Out.insert(D);
      }
      if (Out.size() != LiveOut[BB].size()) {
        LiveOut[BB] = std::move(Out);
        Changed = true;
      }
    }
  }
}

ThreadLocalLiveness::ThreadLocalLiveness(const Function &F) {
  findDerived(F);
  if (!any())
    return;
  findInFlight(F);
  findLive(F);
}

bool ThreadLocalLiveness::liveBefore(const Instruction &I) const {
  if (!any())
    return false;
  Values Live = LiveOut.lookup(I.getParent());
  for (const Instruction &Later : reverse(*I.getParent())) {
    step(Later, Live);
    if (&Later == &I)
      break;
  }
  return !Live.empty();
}

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
