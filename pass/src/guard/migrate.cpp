#include "guard/migrate.h"
#include "facts/cost.h"
#include "names.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"

using namespace llvm;

namespace curtail {

namespace {

// What happened to a variable on the way to a place.
struct Use {
  const Instruction *Last = nullptr;    // it was used here, with no safepoint since
  const Instruction *Crossed = nullptr; // it was used, and then came this safepoint
};
using State = SmallMapVector<const GlobalValue *, Use, 4>;

class Checker {
public:
  Checker(Function &F, const Plan &P, const Summaries &Known, const TargetLibraryInfo &TLI, Report &R);
  void run();

private:
  void findUses();
  void escape(const Instruction &I, const Value *Address, const GlobalValue *Of);
  bool yields(const Instruction &I) const;
  void pass(const Instruction &I, State &S);
  void cross(const Instruction &At, State &S) const;
  bool join(State &Into, const State &From) const;

  Function &F;
  const Plan &P;
  const Summaries &Known;
  const TargetLibraryInfo &TLI;
  Report &R;
  // Derived addresses, and the instructions that use the variable.
  DenseMap<const Value *, const GlobalValue *> Derived;
  DenseMap<const Instruction *, SmallVector<const GlobalValue *, 1>> Uses;
  SmallPtrSet<const Instruction *, 16> Before; // a safepoint comes before these
  SmallPtrSet<const GlobalValue *, 4> Told;
};

} // namespace

Checker::Checker(Function &F, const Plan &P, const Summaries &Known, const TargetLibraryInfo &TLI, Report &R)
    : F(F), P(P), Known(Known), TLI(TLI), R(R) {
  for (const Point &Safepoint : P.Points)
    Before.insert(Safepoint.Before);
  for (const Chunk &C : P.Chunks)
    Before.insert(&*C.Header->getFirstNonPHIIt());
  for (const LongCall &Long : P.LongCalls)
    Before.insert(Long.Call);
}

void Checker::escape(const Instruction &I, const Value *Address, const GlobalValue *Of) {
  bool Stored = isa<StoreInst>(I) && cast<StoreInst>(I).getValueOperand() == Address;
  if (!Stored && !isa<ReturnInst>(I))
    return;
  std::string What = Stored ? "its address is stored, and not followed from there"
                            : "its address is returned, and not followed from there";
  R.threadLocal(F, I, *Of, What);
}

void Checker::findUses() {
  SmallVector<const Instruction *, 8> Work;
  for (const Instruction &I : instructions(F)) {
    if (!isThreadLocalAddress(I))
      continue;
    auto *Of = cast<GlobalValue>(I.getOperand(0)->stripPointerCasts());
    if (Of->getName() == "curtail_safepoint")
      continue;
    Derived[&I] = Of;
    Work.push_back(&I);
  }
  while (!Work.empty()) {
    const Instruction *From = Work.pop_back_val();
    const GlobalValue *Of = Derived.lookup(From);
    for (const User *U : From->users()) {
      auto *I = dyn_cast<Instruction>(U);
      if (!I)
        continue;
      if (isDerivedAddress(*I)) {
        if (Derived.try_emplace(I, Of).second)
          Work.push_back(I);
      } else {
        Uses[I].push_back(Of);
        escape(*I, From, Of);
      }
    }
  }
}

bool Checker::yields(const Instruction &I) const {
  auto *Call = dyn_cast<CallBase>(&I);
  if (!Call || !isRealCall(I) || isPlainLibraryCall(*Call, TLI) || is_contained(P.Bracketed, Call))
    return false;
  auto It = Call->getCalledFunction() ? Known.find(Call->getCalledFunction()) : Known.end();
  return It == Known.end() || It->second.MayYield;
}

void Checker::cross(const Instruction &At, State &S) const {
  for (auto &[Of, U] : S)
    if (U.Last) {
      U.Last = nullptr;
      U.Crossed = &At;
    }
}

void Checker::pass(const Instruction &I, State &S) {
  if (Before.contains(&I))
    cross(I, S);
  if (auto It = Uses.find(&I); It != Uses.end())
    for (const GlobalValue *Of : It->second) {
      Use &U = S[Of];
      if (U.Crossed && Told.insert(Of).second) {
        std::string Place = Report::placeOf(U.Crossed);
        R.threadLocal(F, I, *Of, "used before and after a safepoint" + (Place.empty() ? "" : " at " + Place));
      }
      U = {&I, nullptr};
    }
  if (yields(I))
    cross(I, S);
}

bool Checker::join(State &Into, const State &From) const {
  bool Changed = false;
  for (auto &[Of, U] : From) {
    Use &Mine = Into[Of];
    if ((U.Last && !Mine.Last) || (U.Crossed && !Mine.Crossed)) {
      Mine.Last = Mine.Last ? Mine.Last : U.Last;
      Mine.Crossed = Mine.Crossed ? Mine.Crossed : U.Crossed;
      Changed = true;
    }
  }
  return Changed;
}

void Checker::run() {
  findUses();
  if (Uses.empty())
    return;
  DenseMap<const BasicBlock *, State> In;
  ReversePostOrderTraversal<Function *> Order(&F);
  for (bool Changed = true; Changed;) {
    Changed = false;
    for (const BasicBlock *BB : Order) {
      State S = In.lookup(BB);
      for (const Instruction &I : *BB)
        pass(I, S);
      for (const BasicBlock *Next : successors(BB))
        Changed |= join(In[Next], S);
    }
  }
}

void reportThreadLocals(Function &F, const Plan &P, const Summaries &Known, const TargetLibraryInfo &TLI, Report &R) {
  Checker(F, P, Known, TLI, R).run();
}

} // namespace curtail
