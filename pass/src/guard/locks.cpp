#include "guard/locks.h"
#include "guard/critical.h"
#include "guard/locknames.h"
#include "guard/tls.h"
#include "guard/unwind.h"
#include "names.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

using namespace llvm;

namespace curtail {

static const char Done[] = "curtail-locks";
// How far behind an operation its slow path is looked for, in blocks.
static const unsigned Reach = 2;

namespace {

// What is known of a module's functions, called and inlined.
struct Roles {
  DenseMap<const Value *, LockRole> Called; // those with a role
  DenseMap<const DISubprogram *, LockRole> Inlined;
};
// The way out of a block: its terminator and which of its successors.
using Edge = std::pair<Instruction *, unsigned>;

struct Site {
  Instruction *I;
  LockRole Role;
};

class Locks {
public:
  Locks(Function &F, bool MayYield, const TargetTransformInfo &TTI, GlobalVariable &Block, Roles &Known, Report &R)
      : F(F), MayYield(MayYield), TTI(TTI), Block(Block), Known(Known), R(R) {}
  bool run();

private:
  LockRole calledRole(const Instruction &I) const;
  bool leadsTo(const BasicBlock &BB, LockRole Role, const Value *Lock, unsigned Steps) const;
  bool followedBy(const Instruction &I, LockRole Role) const;
  LockRole roleOf(Instruction &I);
  LockRole roleByPlace(const Instruction &I);
  LockRole roleByShape(const Instruction &I) const;
  void findMerged();
  void check();
  void findYields(Instruction &Given);
  void findYieldEdges(BasicBlock &BB, unsigned Steps, const Value *Lock);
  void take(Instruction &I);
  void give(Instruction &I);
  void changeIf(Instruction &After, Value *Condition, bool Wanted, bool Given);
  void emitYields();

  Function &F;
  const bool MayYield;
  const TargetTransformInfo &TTI;
  GlobalVariable &Block;
  Roles &Known;
  Report &R;
  std::optional<ThreadLocalLiveness> Locals; // of functions with locks
  SmallVector<Site, 8> Sites;
  // Where a yield that fell due may come: behind these instructions, and on these edges.
  SmallSetVector<Instruction *, 8> YieldBehind;
  SmallSetVector<Edge, 8> YieldOn;
};

} // namespace

// The lock that an operation, or a call, is about.
static const Value *lockOf(const Instruction &I) {
  if (auto *X = dyn_cast<AtomicCmpXchgInst>(&I))
    return X->getPointerOperand()->stripPointerCasts();
  if (auto *RMW = dyn_cast<AtomicRMWInst>(&I))
    return RMW->getPointerOperand()->stripPointerCasts();
  auto *Call = cast<CallBase>(&I);
  return Call->arg_empty() ? nullptr : Call->getArgOperand(0)->stripPointerCasts();
}

// A phi stands for any of several: calls for more than one lock get merged.
static bool mayBeSame(const Value *A, const Value *B) {
  return A == B || isa_and_nonnull<PHINode>(A) || isa_and_nonnull<PHINode>(B);
}

LockRole Locks::calledRole(const Instruction &I) const {
  auto *Call = dyn_cast<CallBase>(&I);
  return Call ? Known.Called.lookup(Call->getCalledOperand()) : LockRole::None;
}

bool Locks::leadsTo(const BasicBlock &BB, LockRole Role, const Value *Lock, unsigned Steps) const {
  for (const Instruction &I : BB)
    if (calledRole(I) == Role && mayBeSame(lockOf(I), Lock))
      return true;
  return Steps > 0 &&
         any_of(successors(&BB), [&](const BasicBlock *Next) { return leadsTo(*Next, Role, Lock, Steps - 1); });
}

bool Locks::followedBy(const Instruction &I, LockRole Role) const {
  return any_of(successors(I.getParent()),
                [&](const BasicBlock *Next) { return leadsTo(*Next, Role, lockOf(I), Reach - 1); });
}

LockRole Locks::roleByPlace(const Instruction &I) {
  LockRole Found = LockRole::None;
  for (const DILocation *At = I.getDebugLoc(); At; At = At->getInlinedAt()) {
    const DISubprogram *Of = At->getScope()->getSubprogram();
    auto [It, New] = Known.Inlined.try_emplace(Of, LockRole::None);
    if (New)
      It->second = lockRole(Of->getLinkageName());
    if (It->second == LockRole::Other)
      return LockRole::Other;
    if (Found == LockRole::None)
      Found = It->second;
  }
  return Found;
}

// Without line tables, or where equal operations were merged into one.
static bool isNowhere(const Instruction &I) { return !I.getDebugLoc() || I.getDebugLoc().getLine() == 0; }

// By the slow path that follows. (A try has none.)
LockRole Locks::roleByShape(const Instruction &I) const {
  if (auto *X = dyn_cast<AtomicCmpXchgInst>(&I)) {
    if (isAcquireOrStronger(X->getSuccessOrdering()) && followedBy(I, LockRole::Take))
      return LockRole::Take;
    if (isReleaseOrStronger(X->getSuccessOrdering()) && followedBy(I, LockRole::Give))
      return LockRole::Give;
  }
  auto *RMW = dyn_cast<AtomicRMWInst>(&I);
  if (RMW && isReleaseOrStronger(RMW->getOrdering()) && followedBy(I, LockRole::Wake))
    return LockRole::Give;
  return LockRole::None;
}

// Unoptimised, an atomic operation is a call.
static bool isAtomicCall(const Instruction &I) {
  auto *Call = dyn_cast<CallBase>(&I);
  const Function *Callee = Call ? Call->getCalledFunction() : nullptr;
  // Few names are worth demangling.
  return Callee && Callee->getName().contains("4sync6atomic") &&
         StringRef(readableName(Callee->getName())).ltrim('<').starts_with("core::sync::atomic::");
}

// A compare-and-exchange, or a call that ends in one and returns a Result.
static bool isExchange(const Instruction &I) {
  if (!isa<CallBase>(I) || !isa<StructType>(I.getType()))
    return isa<AtomicCmpXchgInst>(I);
  StringRef Name = cast<CallBase>(I).getCalledFunction()->getName();
  return Name.contains("compare_exchange") || Name.contains("_update");
}

LockRole Locks::roleOf(Instruction &I) {
  if (LockRole Called = calledRole(I); Called != LockRole::None)
    return roleByPlace(I) == LockRole::Other ? LockRole::Other : Called;
  bool Call = isAtomicCall(I);
  if (!Call && !isa<AtomicCmpXchgInst>(I) && !isa<AtomicRMWInst>(I))
    return LockRole::None;
  LockRole Role = roleByPlace(I);
  if (Role == LockRole::None && !Call && isNowhere(I))
    Role = roleByShape(I);
  bool Counts = Role == LockRole::Take ? isExchange(I) : Role == LockRole::Give;
  return Counts ? Role : LockRole::None;
}

// An operation that lost its location, on a lock that is given back here: it may be a try.
void Locks::findMerged() {
  SmallPtrSet<const Value *, 8> Given;
  SmallPtrSet<const Instruction *, 8> Found;
  for (const Site &S : Sites) {
    Found.insert(S.I);
    if (S.Role == LockRole::Give)
      Given.insert(lockOf(*S.I));
  }
  for (Instruction &I : instructions(F)) {
    auto *X = dyn_cast<AtomicCmpXchgInst>(&I);
    if (!X || Found.contains(X) || X->getSuccessOrdering() != AtomicOrdering::Acquire || !isNowhere(I) ||
        !Given.contains(lockOf(I)))
      continue;
    Sites.push_back({X, LockRole::Take});
    R.lockWarning(F, &I, "taken to be a try_lock, by what follows");
  }
}

// Slow paths without their fast paths: something here is not as it was when this was written.
void Locks::check() {
  const Instruction *Take = nullptr, *Wake = nullptr;
  bool Takes = false, Gives = false;
  for (const Site &S : Sites) {
    auto *Call = dyn_cast<CallBase>(S.I);
    StringRef Name = Call ? Call->getCalledFunction()->getName() : "";
    Takes |= S.Role == LockRole::Take && isExchange(*S.I);
    Gives |= S.Role == LockRole::Give;
    if (S.Role == LockRole::Take && (Name.contains("_contended") || Name.contains("lock_slow")))
      Take = S.I;
    if (S.Role == LockRole::Wake)
      Wake = S.I;
  }
  if (Take && !Takes)
    R.lockWarning(F, Take, "a lock is taken in a way that is not known");
  if (Wake && !Gives)
    R.lockWarning(F, Wake, "a lock is given back in a way that is not known");
}

// A yield may come behind `Given`; where a waiter is woken first, behind that.
void Locks::findYields(Instruction &Given) {
  if (isa<CallBase>(Given) || !followedBy(Given, LockRole::Wake))
    YieldBehind.insert(&Given);
  else
    findYieldEdges(*Given.getParent(), Reach, lockOf(Given));
}

void Locks::findYieldEdges(BasicBlock &BB, unsigned Steps, const Value *Lock) {
  Instruction *End = BB.getTerminator();
  for (unsigned Way = 0; Way < End->getNumSuccessors(); Way++) {
    BasicBlock *Next = End->getSuccessor(Way);
    if (leadsTo(*Next, LockRole::Wake, Lock, 0) || Next->isEHPad())
      continue; // the call has a yield behind it
    if (Steps > 1 && leadsTo(*Next, LockRole::Wake, Lock, Steps - 1))
      findYieldEdges(*Next, Steps - 1, Lock);
    else if (!Locals->liveBefore(*End) && !Locals->liveBefore(*Next->getFirstNonPHIIt()))
      YieldOn.insert({End, Way});
  }
}

// Lowers the depth behind `After` where `Condition` is as wanted. `Given`: because a lock was given
// back, else because it was not taken.
void Locks::changeIf(Instruction &After, Value *Condition, bool Wanted, bool Given) {
  IRBuilder<> B(behind(After));
  if (auto *Defined = dyn_cast<Instruction>(Condition); Defined && Defined != &After)
    B.SetInsertPoint(Defined->getNextNode());
  B.SetCurrentDebugLocation(After.getDebugLoc());
  Value *By = B.CreateZExt(Wanted ? Condition : B.CreateNot(Condition), B.getInt32Ty());
  if (Given)
    lowerDepth(B, Block, By);
  else
    changeDepth(B, Block, B.CreateNeg(By));
}

// Whether a compare-and-exchange succeeded.
static Instruction *success(Instruction &I) {
  IRBuilder<> B(behind(I));
  B.SetCurrentDebugLocation(I.getDebugLoc());
  if (isa<CallBase>(I)) {
    Value *Tag = B.CreateExtractValue(&I, 0);
    return cast<Instruction>(B.CreateICmpEQ(Tag, Constant::getNullValue(Tag->getType())));
  }
  for (User *U : I.users())
    if (auto *Part = dyn_cast<ExtractValueInst>(U))
      if (Part->getIndices()[0] == 1 && Part->getParent() == I.getParent())
        return Part;
  return cast<Instruction>(B.CreateExtractValue(&I, 1));
}

// Where a compare-and-exchange that fails goes on, if it branches on that at once.
static Instruction *failure(Instruction *Success) {
  auto *Branch = dyn_cast<BranchInst>(Success->getParent()->getTerminator());
  if (!Branch || !Branch->isConditional() || Branch->getCondition() != Success || !Success->hasOneUse() ||
      Branch->getSuccessor(0) == Branch->getSuccessor(1))
    return nullptr;
  BasicBlock *Failed = Branch->getSuccessor(1);
  if (!Failed->getSinglePredecessor())
    Failed = SplitEdge(Branch->getParent(), Failed);
  return &*Failed->getFirstInsertionPt();
}

void Locks::take(Instruction &I) {
  if (isExchange(I)) {
    Instruction *Success = success(I);
    if (Instruction *Failed = failure(Success))
      changeDepthBefore(Failed, Block, -1, I.getDebugLoc());
    else
      changeIf(I, Success, false, false);
  } else if (isa<CallBase>(I) && I.getType()->isIntegerTy(1))
    changeIf(I, &I, false, false);
  changeDepthBefore(&I, Block, 1, I.getDebugLoc());
}

void Locks::give(Instruction &I) {
  if (isExchange(I)) {
    changeIf(I, success(I), true, true);
    return;
  }
  IRBuilder<> B(behind(I));
  B.SetCurrentDebugLocation(I.getDebugLoc());
  lowerDepth(B, Block, B.getInt32(1));
}

void Locks::emitYields() {
  SlowPath How = slowPathFrom(F, TTI);
  // The instructions stay what they are when blocks are split; places are looked up at last.
  for (Edge E : YieldOn) {
    BasicBlock *From = E.first->getParent(), *To = E.first->getSuccessor(E.second);
    BasicBlock *On = To->getSinglePredecessor() ? To : SplitEdge(From, To);
    yieldIfPending(&*On->getFirstInsertionPt(), Block, How, E.first->getDebugLoc());
  }
  for (Instruction *I : YieldBehind)
    yieldIfPending(behind(*I), Block, How, I->getDebugLoc());
}

bool Locks::run() {
  for (Instruction &I : instructions(F))
    if (LockRole Role = roleOf(I); Role != LockRole::None && Role != LockRole::Other)
      Sites.push_back({&I, Role});
  if (Sites.empty())
    return false;
  Locals.emplace(F);
  findMerged();
  check();
  for (Site S : Sites)
    if (MayYield && (S.Role == LockRole::Give || S.Role == LockRole::Wake))
      findYields(*S.I);
  YieldBehind.remove_if([&](Instruction *I) {
    auto *Invoke = dyn_cast<InvokeInst>(I);
    return Locals->liveBefore(Invoke ? *Invoke->getNormalDest()->getFirstNonPHIIt() : *I->getNextNode());
  });
  // Yields first: what is inserted later, right behind an operation, comes before them.
  emitYields();
  for (Site S : Sites) {
    if (S.Role == LockRole::Take)
      take(*S.I);
    else if (S.Role == LockRole::Give)
      give(*S.I);
    else if (S.Role == LockRole::Wake || S.Role == LockRole::Within)
      bracketCall(*cast<CallBase>(S.I), Block);
  }
  F.setMemoryEffects(MemoryEffects::unknown());
  F.addFnAttr(Done);
  R.locks(Sites.size());
  return true;
}

void instrumentLocks(Module &M, const Exclusions &Excluded, GlobalVariable &Block, FunctionAnalysisManager &FAM,
                     Report &R) {
  Roles Known;
  const Function *Used = nullptr;
  for (const Function &F : M)
    if (LockRole Role = lockRole(F.getName()); Role != LockRole::None) {
      Known.Called[&F] = Role;
      Used = &F;
    }
  for (Function &F : M) {
    if (F.isDeclaration() || F.hasAvailableExternallyLinkage() || F.hasFnAttribute(Done))
      continue;
    StringRef Why = Excluded.reason(F);
    if (Why == "part of a lock" || Why == "part of Curtail")
      continue;
    auto &TTI = FAM.getResult<TargetIRAnalysis>(F);
    if (Locks(F, Why.empty(), TTI, Block, Known, R).run())
      FAM.invalidate(F, PreservedAnalyses::none());
  }
  if (Used && !M.getNamedMetadata("llvm.dbg.cu"))
    R.lockWarning(*Used, nullptr, "no line tables: a try_lock is not seen");
}

} // namespace curtail
