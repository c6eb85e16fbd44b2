#include "prepare/retake.h"
#include "guard/tls.h"
#include "names.h"
#include "options.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace curtail {

bool isOnceArgument(const GlobalValue &Variable) {
  return Variable.getName() == "_ZSt15__once_callable" || Variable.getName() == "_ZSt11__once_call";
}

// Metadata of stores.
static const char Named[] = "curtail.names-thread-local";

bool namesItsVariable(const StoreInst &Store) { return Store.hasMetadata(Named); }

// Through such a function C++ reaches a variable that may have to be initialised.
static bool isWrapper(const Instruction &I) {
  auto *Call = dyn_cast<CallBase>(&I);
  return Call && Call->getCalledFunction() && Call->getCalledFunction()->getName().starts_with("_ZTW");
}

static bool isPartOfVariable(const Value &Address) {
  if (isa<GetElementPtrInst, BitCastInst>(Address))
    return isPartOfVariable(*cast<User>(Address).getOperand(0));
  auto *From = dyn_cast<Instruction>(&Address);
  return From && (isThreadLocalAddress(*From) || isWrapper(*From));
}

bool noteNames(Module &M) {
  bool Changed = false;
  for (Function &F : M)
    for (Instruction &I : instructions(F)) {
      auto *Store = dyn_cast<StoreInst>(&I);
      if (!Store || !isPartOfVariable(*Store->getPointerOperand()))
        continue;
      Store->setMetadata(Named, MDNode::get(M.getContext(), {}));
      Changed = true;
    }
  return Changed;
}

bool holdsThreadLocal(StringRef Mangled) {
  return Mangled.contains("LocalKey") && isListed("holds-thread-local", readableName(Mangled));
}

// The call in which Rust held the address that an instruction uses: the outermost that it was inlined
// from, as line tables tell.
static const DILocation *holderOf(const Instruction &I) {
  const DILocation *Call = nullptr;
  for (const DILocation *At = I.getDebugLoc(); At; At = At->getInlinedAt())
    if (holdsThreadLocal(At->getSubprogramLinkageName()))
      Call = At->getInlinedAt();
  return Call;
}

// An address and another, of which a phi makes one, are held by what uses it: by one call, or the
// answer is unknown. Loads may have lost their lines.
static const DILocation *holderOf(const PHINode &Phi) {
  SmallSetVector<const Instruction *, 8> Addresses;
  Addresses.insert(&Phi);
  const DILocation *Call = nullptr;
  for (size_t At = 0; At < Addresses.size(); At++)
    for (const User *U : Addresses[At]->users()) {
      auto *I = cast<Instruction>(U);
      if (isDerivedAddress(*I)) {
        Addresses.insert(I);
        continue;
      }
      const DILocation *By = holderOf(*I);
      if (!By && isa<LoadInst>(I))
        continue;
      if (!By || (Call && Call != By))
        return nullptr;
      Call = By;
    }
  return Call;
}

namespace {

// What the addresses of a variable come to in a function.
struct Variable {
  SmallVector<Instruction *, 2> Taken;    // llvm.threadlocal.address
  SmallSetVector<Instruction *, 8> Parts; // addresses computed from these
  // What is done with them, and in which call that holds them, if it is known.
  SmallMapVector<Instruction *, const DILocation *, 8> Users;
  bool Followed = true; // every use is known for what it is
  bool Free = true;     // no use writes through an address that was kept, or hands one on
  bool Held = true;     // those that do are in a call that holds it
};

// Users that share an address: those of one block, or of one call that holds it.
struct Group {
  SmallVector<Instruction *, 4> Users;
  Instruction *Address = nullptr;
  DenseMap<std::pair<BasicBlock *, Value *>, Instruction *> Copies; // of its parts
};

class Retaking {
public:
  Retaking(const Variable &V, DominatorTree &DT, LoopInfo &LI) : V(V), DT(DT), LI(LI) {}
  void run(bool ByBlock);

private:
  bool isOld(Value *Address) const;
  template <typename Callable> void eachBlock(Instruction &User, Callable What) const;
  BasicBlock *common(BasicBlock *With, Instruction &User) const;
  bool isWithin(const Instruction &Load, BasicBlock &Region) const;
  void group(bool ByBlock);
  Instruction &placeFor(const Group &G) const;
  Value *retaken(Value *Address, Instruction &Before, Group &G) const;

  const Variable &V;
  DominatorTree &DT;
  LoopInfo &LI;
  MapVector<const void *, Group> Groups;
};

} // namespace

static Variable follow(ArrayRef<Instruction *> Taken) {
  Variable V;
  V.Taken.assign(Taken.begin(), Taken.end());
  SmallVector<Instruction *, 8> Work(Taken);
  while (!Work.empty()) {
    Instruction *Address = Work.pop_back_val();
    for (User *U : Address->users()) {
      auto *I = cast<Instruction>(U);
      if (isa<GetElementPtrInst, BitCastInst, AddrSpaceCastInst>(I)) {
        if (V.Parts.insert(I))
          Work.push_back(I);
        continue;
      }
      auto *Phi = dyn_cast<PHINode>(I);
      auto *Store = dyn_cast<StoreInst>(I);
      const DILocation *By = Phi ? holderOf(*Phi) : holderOf(*I);
      V.Followed &= !isa<SelectInst, FreezeInst>(I) && !(Store && Store->getValueOperand() == Address);
      V.Free &= isa<LoadInst>(I) || (Store && namesItsVariable(*Store));
      V.Held &= isa<LoadInst>(I) || By;
      V.Users.insert({I, By});
    }
  }
  return V;
}

// Is an access one instruction or two, and not a call of __tls_get_addr?
static bool isCheap(const GlobalValue &Of) {
  const Module &M = *Of.getParent();
  return Of.isDSOLocal() || Of.getThreadLocalMode() == GlobalValue::InitialExecTLSModel ||
         Of.getThreadLocalMode() == GlobalValue::LocalExecTLSModel || M.getPICLevel() == PICLevel::NotPIC ||
         M.getPIELevel() != PIELevel::Default;
}

bool isIndifferent(const GlobalValue &Of) { return isListed("indifferent", readableName(Of.getName())); }

bool Retaking::isOld(Value *Address) const {
  auto *I = dyn_cast<Instruction>(Address);
  return I && (V.Parts.contains(I) || is_contained(V.Taken, I));
}

// A phi uses an address at the ends of the blocks that it comes from.
template <typename Callable> void Retaking::eachBlock(Instruction &User, Callable What) const {
  auto *Phi = dyn_cast<PHINode>(&User);
  if (!Phi)
    return What(User.getParent());
  for (unsigned K = 0; K < Phi->getNumIncomingValues(); K++)
    if (isOld(Phi->getIncomingValue(K)))
      What(Phi->getIncomingBlock(K));
}

BasicBlock *Retaking::common(BasicBlock *With, Instruction &User) const {
  eachBlock(User, [&](BasicBlock *BB) {
    if (DT.isReachableFromEntry(BB))
      With = With ? DT.findNearestCommonDominator(With, BB) : BB;
  });
  return With;
}

// Does a load belong to the call that holds the address from `Region` on? What loop rotation copied in
// front of the loop does not.
bool Retaking::isWithin(const Instruction &Load, BasicBlock &Region) const {
  const BasicBlock *BB = Load.getParent();
  return DT.dominates(&Region, BB) || (DT.dominates(BB, &Region) && LI.getLoopFor(BB) == LI.getLoopFor(&Region));
}

void Retaking::group(bool ByBlock) {
  SmallDenseMap<const DILocation *, BasicBlock *, 4> Regions;
  for (auto &[User, By] : V.Users)
    if (By && !ByBlock && !isa<LoadInst>(User))
      Regions[By] = common(Regions.lookup(By), *User);
  // In the blocks' order, so that the first user computes what others use.
  for (Instruction &I : instructions(*V.Taken.front()->getFunction())) {
    auto It = V.Users.find(&I);
    if (It == V.Users.end())
      continue;
    BasicBlock *Region = Regions.lookup(It->second);
    bool Held = Region && (!isa<LoadInst>(I) || isWithin(I, *Region));
    Groups[Held ? static_cast<const void *>(It->second) : I.getParent()].Users.push_back(&I);
  }
}

// Before all users of a group, and no earlier than it must be.
Instruction &Retaking::placeFor(const Group &G) const {
  BasicBlock *Common = nullptr;
  for (Instruction *User : G.Users)
    Common = common(Common, *User);
  if (!Common) // nowhere that is ever reached
    Common = G.Users.front()->getParent();
  for (Instruction *User : G.Users)
    if (User->getParent() == Common && !isa<PHINode>(User))
      return *User;
  return *Common->getTerminator();
}

Value *Retaking::retaken(Value *Address, Instruction &Before, Group &G) const {
  if (!isOld(Address))
    return Address;
  auto *I = cast<Instruction>(Address);
  if (!V.Parts.contains(I))
    return G.Address;
  if (Instruction *Have = G.Copies.lookup({Before.getParent(), I}))
    return Have;
  Instruction *Copy = I->clone();
  Copy->insertBefore(Before.getIterator());
  for (Use &Operand : Copy->operands())
    Operand = retaken(Operand, *Copy, G);
  G.Copies[{Before.getParent(), I}] = Copy;
  return Copy;
}

void Retaking::run(bool ByBlock) {
  group(ByBlock);
  for (auto &[Key, G] : Groups) {
    G.Address = V.Taken.front()->clone();
    G.Address->insertBefore(placeFor(G).getIterator());
    for (Instruction *User : G.Users)
      if (!isa<PHINode>(User))
        for (Use &Operand : User->operands())
          Operand = retaken(Operand, *User, G);
    // Last: at a block's end, they find what was computed in it.
    for (Instruction *User : G.Users)
      if (auto *Phi = dyn_cast<PHINode>(User))
        for (unsigned K = 0; K < Phi->getNumIncomingValues(); K++) {
          Instruction &End = *Phi->getIncomingBlock(K)->getTerminator();
          Phi->setIncomingValue(K, retaken(Phi->getIncomingValue(K), End, G));
        }
  }
  for (ArrayRef<Instruction *> Old : {V.Parts.getArrayRef(), ArrayRef<Instruction *>(V.Taken)}) {
    for (Instruction *I : Old)
      I->replaceAllUsesWith(PoisonValue::get(I->getType()));
    for (Instruction *I : Old)
      I->eraseFromParent();
  }
}

bool retakeThreadLocals(Function &F, FunctionAnalysisManager &FAM) {
  if (options().Migratable != Migration::No)
    return false;
  MapVector<const GlobalValue *, SmallVector<Instruction *, 2>> Addresses;
  for (Instruction &I : instructions(F))
    if (isThreadLocalAddress(I))
      Addresses[cast<GlobalValue>(I.getOperand(0)->stripPointerCasts())].push_back(&I);
  bool Changed = false;
  for (auto &[Of, Taken] : Addresses) {
    Variable V = follow(Taken);
    bool Phis = any_of(V.Users, [](auto &User) { return isa<PHINode>(User.first); });
    bool ByBlock = !Phis && ((V.Free && isCheap(*Of)) || isOnceArgument(*Of) || isIndifferent(*Of));
    if (!V.Followed || V.Users.empty() || !(ByBlock || (V.Held && isCheap(*Of))))
      continue;
    Retaking(V, FAM.getResult<DominatorTreeAnalysis>(F), FAM.getResult<LoopAnalysis>(F)).run(ByBlock);
    Changed = true;
  }
  return Changed;
}

} // namespace curtail
