#include "guard/signals.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Operator.h"

using namespace llvm;

namespace curtail {

// How far values are followed: through selects, phis, fields, and arguments to the callers.
static const unsigned Reach = 8;

namespace {

class Finder {
public:
  explicit Finder(const Module &M) : M(M) {}
  SmallSetVector<Function *, 4> run();

private:
  void installed(const Value *Handler, unsigned Steps);
  void inStruct(const Value *Struct, unsigned Steps);
  void ofArgument(const Argument &A, unsigned Steps, void (Finder::*Follow)(const Value *, unsigned));

  const Module &M;
  SmallSetVector<Function *, 4> Found;
  SmallPtrSet<const Value *, 16> Seen;
};

} // namespace

// A handler's address, maybe as a number.
static const Value *stripped(const Value *V) {
  for (;;) {
    const Value *Next = V->stripPointerCasts();
    if (auto *Cast = dyn_cast<PtrToIntOperator>(Next))
      Next = Cast->getPointerOperand();
    else if (auto *Back = dyn_cast<IntToPtrInst>(Next))
      Next = Back->getOperand(0);
    if (Next == V)
      return V;
    V = Next;
  }
}

void Finder::ofArgument(const Argument &A, unsigned Steps, void (Finder::*Follow)(const Value *, unsigned)) {
  for (const User *U : A.getParent()->users())
    if (auto *Call = dyn_cast<CallBase>(U))
      if (Call->getCalledOperand() == A.getParent() && A.getArgNo() < Call->arg_size())
        (this->*Follow)(Call->getArgOperand(A.getArgNo()), Steps - 1);
}

void Finder::installed(const Value *Handler, unsigned Steps) {
  Handler = stripped(Handler);
  if (auto *F = dyn_cast<Function>(Handler)) {
    Found.insert(const_cast<Function *>(F));
    return;
  }
  if (Steps == 0 || !Seen.insert(Handler).second)
    return;
  if (auto *A = dyn_cast<Argument>(Handler))
    ofArgument(*A, Steps, &Finder::installed);
  else if (auto *S = dyn_cast<SelectInst>(Handler)) {
    installed(S->getTrueValue(), Steps - 1);
    installed(S->getFalseValue(), Steps - 1);
  } else if (auto *P = dyn_cast<PHINode>(Handler)) {
    for (const Value *V : P->incoming_values())
      installed(V, Steps - 1);
  } else if (auto *L = dyn_cast<LoadInst>(Handler)) {
    // Unoptimised: through a variable.
    inStruct(L->getPointerOperand(), Steps - 1);
  }
}

static const Constant *firstField(const Constant *C) {
  while (C && isa<ConstantAggregate>(C) && C->getNumOperands() != 0)
    C = cast<Constant>(C->getOperand(0));
  return C;
}

// Everything that is stored at the beginning of a variable.
void Finder::inStruct(const Value *Struct, unsigned Steps) {
  Struct = Struct->stripPointerCasts();
  // Null and its kin have no users that LLVM knows of.
  if (Steps == 0 || !Struct->hasUseList() || !Seen.insert(Struct).second)
    return;
  if (auto *A = dyn_cast<Argument>(Struct))
    ofArgument(*A, Steps, &Finder::inStruct);
  if (auto *G = dyn_cast<GlobalVariable>(Struct); G && G->hasInitializer())
    if (const Constant *First = firstField(G->getInitializer()))
      installed(First, Steps - 1);
  SmallVector<const Value *, 8> Same{Struct};
  for (unsigned At = 0; At < Same.size(); At++)
    for (const User *U : Same[At]->users()) {
      auto *GEP = dyn_cast<GEPOperator>(U);
      if (isa<BitCastOperator, AddrSpaceCastInst>(U) || (GEP && GEP->hasAllZeroIndices()))
        Same.push_back(U);
      else if (auto *S = dyn_cast<StoreInst>(U); S && S->getPointerOperand() == Same[At])
        installed(S->getValueOperand(), Steps - 1);
      else if (auto *C = dyn_cast<MemTransferInst>(U); C && C->getRawDest() == Same[At])
        inStruct(C->getRawSource(), Steps - 1);
    }
}

SmallSetVector<Function *, 4> Finder::run() {
  for (const Function &Setter : M) {
    StringRef Name = Setter.getName();
    bool Direct = is_contained({"signal", "bsd_signal", "sysv_signal", "__sysv_signal", "ssignal", "sigset"}, Name);
    if (!Direct && Name != "sigaction" && Name != "__sigaction")
      continue;
    for (const User *U : Setter.users()) {
      auto *Call = dyn_cast<CallBase>(U);
      if (!Call || Call->getCalledOperand() != &Setter || Call->arg_size() < 2)
        continue;
      if (Direct)
        installed(Call->getArgOperand(1), Reach);
      else
        inStruct(Call->getArgOperand(1), Reach);
    }
  }
  return std::move(Found);
}

SmallSetVector<Function *, 4> findSignalHandlers(const Module &M) { return Finder(M).run(); }

} // namespace curtail
