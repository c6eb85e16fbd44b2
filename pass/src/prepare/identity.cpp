#include "prepare/identity.h"
#include "guard/tls.h"
#include "names.h"
#include "llvm/IR/IRBuilder.h"

using namespace llvm;

namespace curtail {

static SmallVector<Instruction *, 8> addressesOf(GlobalVariable &G) {
  SmallVector<Instruction *, 8> Found;
  for (User *U : G.users())
    if (auto *I = dyn_cast<Instruction>(U); I && isThreadLocalAddress(*I))
      Found.push_back(I);
  return Found;
}

// The channels' thread id is the address of a thread-local variable, compared with that of who
// waits. Any address on the caller's stack does as well: no two fibers share one.
static bool takeStacksForIds(GlobalVariable &Id) {
  auto Addresses = addressesOf(Id);
  for (Instruction *I : Addresses) {
    IRBuilder<> B(I);
    I->replaceAllUsesWith(B.CreateIntrinsic(Intrinsic::frameaddress, {B.getPtrTy()}, {B.getInt32(0)}));
    I->eraseFromParent();
  }
  return !Addresses.empty();
}

// What parking_lot does when a thread's variables are destroyed already is right for fibers: the
// queue entry lies on the stack. The state of a lazy thread-local variable is a byte; 2 means
// destroyed. All others are unread then.
static bool showDestroyed(GlobalVariable &Entry) {
  auto Addresses = addressesOf(Entry);
  if (Addresses.empty())
    return false;
  Module &M = *Entry.getParent();
  uint64_t Size = M.getDataLayout().getTypeAllocSize(Entry.getValueType());
  SmallVector<uint8_t, 64> Bytes(Size, 2);
  Constant *Value = ConstantDataArray::get(M.getContext(), Bytes);
  auto *Destroyed = new GlobalVariable(M, Value->getType(), /*isConstant=*/true, GlobalValue::PrivateLinkage, Value,
                                       "curtail.destroyed");
  Destroyed->setAlignment(Entry.getAlign());
  for (Instruction *I : Addresses) {
    I->replaceAllUsesWith(Destroyed);
    I->eraseFromParent();
  }
  return true;
}

bool giveFibersIdentities(Module &M) {
  bool Changed = false;
  for (GlobalVariable &G : make_early_inc_range(M.globals())) {
    if (!G.isThreadLocal() || !G.getName().contains("RUST_STD_INTERNAL_VAL"))
      continue;
    std::string Name = readableName(G.getName());
    if (isListed("thread-id", Name))
      Changed |= takeStacksForIds(G);
    else if (isListed("thread-data", Name))
      Changed |= showDestroyed(G);
  }
  return Changed;
}

} // namespace curtail
