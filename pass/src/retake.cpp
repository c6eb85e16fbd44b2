#include "retake.h"
#include "keepout.h"
#include "names.h"
#include "options.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace curtail {

// std::hash::RandomState counts its keys up and cares for nothing but that they differ from map to
// map; another request in between does no harm.
static const char *const Indifferent[] = {"*std::hash::random::RandomState*::new::KEYS::*"};

bool isOnceArgument(const GlobalValue &Variable) {
  return Variable.getName() == "_ZSt15__once_callable" || Variable.getName() == "_ZSt11__once_call";
}

static const char Named[] = "curtail.names-thread-local";

bool namesItsVariable(const StoreInst &Store) { return Store.hasMetadata(Named); }

// The address itself, or what the function returns through which C++ reaches a variable that may
// have to be initialised.
static bool isNameOfVariable(const Value &Address) {
  auto *Call = dyn_cast<CallBase>(&Address);
  Function *Callee = Call ? Call->getCalledFunction() : nullptr;
  return Callee && (Callee->getIntrinsicID() == Intrinsic::threadlocal_address ||
                    Callee->getName().starts_with("_ZTW"));
}

bool noteNamedStores(Module &M) {
  bool Changed = false;
  for (Function &F : M)
    for (Instruction &I : instructions(F)) {
      auto *Store = dyn_cast<StoreInst>(&I);
      if (!Store)
        continue;
      Value *Address = Store->getPointerOperand();
      while (isa<GetElementPtrInst, BitCastInst>(Address))
        Address = cast<User>(Address)->getOperand(0);
      if (!isNameOfVariable(*Address))
        continue;
      Store->setMetadata(Named, MDNode::get(M.getContext(), {}));
      Changed = true;
    }
  return Changed;
}

namespace {

// What the addresses of a variable come to in a function.
struct Variable {
  SmallVector<Instruction *, 2> Taken;    // llvm.threadlocal.address
  SmallSetVector<Instruction *, 8> Parts; // addresses computed from these
  SmallSetVector<Instruction *, 8> Users; // what is done with them
  bool Followed = true;                   // all of them are single steps: no phis, no selects
  bool Free = true;                       // nobody writes through an address that was kept
};

} // namespace

static void follow(Variable &V) {
  SmallVector<Instruction *, 8> Work(V.Taken.begin(), V.Taken.end());
  while (!Work.empty()) {
    Instruction *Address = Work.pop_back_val();
    for (User *U : Address->users()) {
      auto *I = cast<Instruction>(U);
      if (isa<GetElementPtrInst, BitCastInst, AddrSpaceCastInst>(I)) {
        if (V.Parts.insert(I))
          Work.push_back(I);
        continue;
      }
      V.Followed &= !isa<PHINode, SelectInst, FreezeInst>(I);
      auto *Store = dyn_cast<StoreInst>(I);
      V.Free &= Store ? Store->getValueOperand() != Address && namesItsVariable(*Store) : isa<LoadInst>(I);
      V.Users.insert(I);
    }
  }
}

// Is an access one instruction or two, and not a call of __tls_get_addr?
static bool isCheap(const GlobalValue &Of) {
  const Module &M = *Of.getParent();
  return Of.isDSOLocal() || Of.getThreadLocalMode() == GlobalValue::InitialExecTLSModel ||
         Of.getThreadLocalMode() == GlobalValue::LocalExecTLSModel ||
         M.getPICLevel() == PICLevel::NotPIC || M.getPIELevel() != PIELevel::Default;
}

static bool mayRetake(const GlobalValue &Of, const Variable &V) {
  if (!V.Followed)
    return false;
  static const GlobTable Known(Indifferent);
  return (V.Free && isCheap(Of)) || isOnceArgument(Of) || Known.matches(readableName(Of.getName()));
}

// The address, computed in the block of `Before`: of the copies made there so far, or a new one.
static Value *retaken(Value *Address, Instruction &Before, const Variable &V,
                      DenseMap<std::pair<BasicBlock *, Value *>, Instruction *> &Copies) {
  auto *I = dyn_cast<Instruction>(Address);
  if (!I || (!V.Parts.contains(I) && !is_contained(V.Taken, I)))
    return Address;
  if (Instruction *Have = Copies.lookup({Before.getParent(), I}))
    return Have;
  Instruction *Copy = I->clone();
  Copy->insertBefore(Before.getIterator());
  for (Use &Operand : Copy->operands())
    Operand = retaken(Operand, *Copy, V, Copies);
  Copies[{Before.getParent(), I}] = Copy;
  return Copy;
}

static void retake(const Variable &V) {
  DenseMap<std::pair<BasicBlock *, Value *>, Instruction *> Copies;
  // In the blocks' order, so that a block's first user computes what the others use.
  SmallVector<Instruction *, 8> Users;
  for (Instruction &I : instructions(*V.Taken.front()->getFunction()))
    if (V.Users.contains(&I))
      Users.push_back(&I);
  for (Instruction *User : Users)
    for (Use &Operand : User->operands())
      Operand = retaken(Operand, *User, V, Copies);
  for (Instruction *Part : reverse(V.Parts))
    Part->replaceAllUsesWith(PoisonValue::get(Part->getType()));
  for (Instruction *Part : V.Parts)
    Part->eraseFromParent();
  for (Instruction *Taken : V.Taken)
    Taken->eraseFromParent();
}

bool retakeThreadLocals(Function &F) {
  if (options().Migratable != Migration::No)
    return false;
  MapVector<const GlobalValue *, Variable> Variables;
  for (Instruction &I : instructions(F))
    if (auto *Intrinsic = dyn_cast<IntrinsicInst>(&I);
        Intrinsic && Intrinsic->getIntrinsicID() == Intrinsic::threadlocal_address)
      Variables[cast<GlobalValue>(Intrinsic->getArgOperand(0)->stripPointerCasts())].Taken.push_back(&I);
  bool Changed = false;
  for (auto &[Of, V] : Variables) {
    follow(V);
    if (!mayRetake(*Of, V))
      continue;
    retake(V);
    Changed = true;
  }
  return Changed;
}

} // namespace curtail
