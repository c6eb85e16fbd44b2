#include "guard/shield.h"
#include "facts/cost.h"
#include "guard/bracket.h"
#include "guard/critical.h"
#include "guard/unwind.h"
#include "names.h"
#include "llvm/IR/InstIterator.h"

using namespace llvm;

namespace curtail {

static const char Done[] = "curtail-shielded";

static bool mayYieldIn(const CallBase &Call, const Exclusions &Excluded, const Summaries &Known,
                       const TargetLibraryInfo &TLI) {
  if (!isRealCall(Call) || isPlainLibraryCall(Call, TLI))
    return false;
  const Function *Callee = Call.getCalledFunction();
  if (!Callee)
    return true;
  auto It = Known.find(Callee);
  if (It != Known.end())
    return It->second.MayYield;
  // Another module's: if it is one of those that may not yield, it sees to that itself.
  return Excluded.nameOf(*Callee).empty();
}

static void lowerWhereExceptionsLeave(Function &F, GlobalVariable &Block) {
  SmallVector<ResumeInst *, 4> Resumed;
  SmallVector<CallInst *, 8> Leaving;
  for (Instruction &I : instructions(F)) {
    auto *Call = dyn_cast<CallInst>(&I);
    if (auto *Resume = dyn_cast<ResumeInst>(&I))
      Resumed.push_back(Resume);
    else if (Call && mayLeaveBy(*Call))
      Leaving.push_back(Call);
  }
  BasicBlock *Pad = Leaving.empty() ? nullptr : createCleanup(F);
  if (Pad) {
    for (CallInst *Call : Leaving)
      unwindTo(*Call, *Pad);
    Resumed.push_back(cast<ResumeInst>(Pad->getTerminator()));
  }
  for (ResumeInst *Resume : Resumed)
    changeDepthBefore(Resume, Block, -1, Resume->getDebugLoc());
}

bool shieldBody(Function &F, const Exclusions &Excluded, const Summaries &Known, const TargetLibraryInfo &TLI,
                GlobalVariable &Block) {
  if (F.hasFnAttribute(Done) || F.hasFnAttribute(Attribute::Naked))
    return false;
  bool Needed = any_of(instructions(F), [&](const Instruction &I) {
    auto *Call = dyn_cast<CallBase>(&I);
    return Call && mayYieldIn(*Call, Excluded, Known, TLI);
  });
  if (!Needed)
    return false;
  SmallVector<Instruction *, 4> Ends;
  for (BasicBlock &BB : F)
    if (auto *Return = dyn_cast<ReturnInst>(BB.getTerminator())) {
      CallInst *Tail = BB.getTerminatingMustTailCall();
      Ends.push_back(Tail ? static_cast<Instruction *>(Tail) : Return);
    }
  lowerWhereExceptionsLeave(F, Block);
  BasicBlock::iterator Begin = F.getEntryBlock().getFirstInsertionPt();
  while (isa<AllocaInst>(*Begin))
    ++Begin;
  changeDepthBefore(&*Begin, Block, 1, Begin->getDebugLoc());
  for (Instruction *End : Ends)
    changeDepthBefore(End, Block, -1, End->getDebugLoc());
  F.setMemoryEffects(MemoryEffects::unknown());
  F.addFnAttr(Done);
  return true;
}

static bool callsBack(const Function &Callee) {
  StringRef Name = Callee.getName();
  if (is_contained({"exit", "quick_exit", "dlopen", "dlmopen", "dlclose", "dl_iterate_phdr", "fork", "call_once"},
                   Name))
    return Callee.isDeclaration();
  // Rust's own exit, and C++'s (libc++): not through C's names here.
  return (Name.contains("7process4exit") && readableName(Name) == "std::process::exit") ||
         (Name.starts_with("_ZNSt3__1") && Name.contains("11__call_once"));
}

void bracketLibraryCallbacks(Function &F, GlobalVariable &Block) {
  SmallVector<CallBase *, 4> Calls;
  for (Instruction &I : instructions(F)) {
    auto *Call = dyn_cast<CallBase>(&I);
    const Function *Callee = Call ? Call->getCalledFunction() : nullptr;
    if (Callee && !Call->isMustTailCall() && callsBack(*Callee))
      Calls.push_back(Call);
  }
  for (CallBase *Call : Calls)
    bracketCall(*Call, Block);
}

} // namespace curtail
