#include "critical.h"
#include "emit.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

using namespace llvm;

namespace curtail {

static const uint64_t PendingOffset = 16;

static Value *field(IRBuilder<> &B, GlobalVariable &Block, uint64_t Offset) {
  return B.CreateConstInBoundsGEP1_64(B.getInt8Ty(), B.CreateThreadLocalAddress(&Block), Offset);
}

// Volatile: a critical section's edges stay where they are.
static Value *load(IRBuilder<> &B, Value *Address) {
  return B.CreateAlignedLoad(B.getInt32Ty(), Address, Align(4), /*isVolatile=*/true);
}

static void store(IRBuilder<> &B, Value *New, Value *Address) {
  B.CreateAlignedStore(New, Address, Align(4), /*isVolatile=*/true);
}

void changeDepth(IRBuilder<> &B, GlobalVariable &Block, Value *By) {
  Value *Depth = field(B, Block, DepthOffset);
  store(B, B.CreateAdd(load(B, Depth), By), Depth);
}

void changeDepthBefore(Instruction *Where, GlobalVariable &Block, int By,
                       const DebugLoc &Location) {
  IRBuilder<> B(Where);
  B.SetCurrentDebugLocation(Location);
  changeDepth(B, Block, B.getInt32(By));
}

void lowerDepth(IRBuilder<> &B, GlobalVariable &Block, Value *By) {
  Value *Depth = field(B, Block, DepthOffset);
  store(B, B.CreateBinaryIntrinsic(Intrinsic::usub_sat, load(B, Depth), By), Depth);
}

static bool usesX87(const Function &F) {
  auto IsX87 = [](const Value *V) { return V->getType()->getScalarType()->isX86_FP80Ty(); };
  return any_of(instructions(F), [&](const Instruction &I) {
    return IsX87(&I) || any_of(I.operands(), [&](const Use &U) { return IsX87(U); });
  });
}

// As a safepoint calls it (see emit.cpp): to the compiler it clobbers nothing but the flags.
static void callSlow(IRBuilder<> &B, GlobalVariable &Block) {
  Function &F = *B.GetInsertBlock()->getParent();
  bool Local = Block.getThreadLocalMode() == GlobalValue::LocalExecTLSModel;
  StringRef Text = Local ? "call curtail_safepoint_slow"
                         : "call *curtail_safepoint_slow@GOTPCREL(%rip)";
  std::string Clobbers = "~{memory},~{dirflag},~{fpsr},~{flags}";
  if (usesX87(F))
    Clobbers += ",~{st},~{st(1)},~{st(2)},~{st(3)},~{st(4)},~{st(5)},~{st(6)},~{st(7)}";
  auto *Type = FunctionType::get(B.getVoidTy(), false);
  CallInst *Slow = B.CreateCall(Type, InlineAsm::get(Type, Text, Clobbers, true));
  Slow->addFnAttr(Attribute::NoUnwind);
  Slow->addFnAttr(Attribute::Cold);
  F.addFnAttr(Attribute::NoRedZone); // the stub's frame lies right below
}

void yieldIfPending(Instruction *Where, GlobalVariable &Block, const DebugLoc &Location) {
  IRBuilder<> B(Where);
  B.SetCurrentDebugLocation(Location);
  // `pending` is 0 or 1: it is above the depth only if it is set and the depth is zero.
  Value *Due = B.CreateICmpUGT(load(B, field(B, Block, PendingOffset)),
                               load(B, field(B, Block, DepthOffset)));
  MDNode *Rare = MDBuilder(Where->getContext()).createBranchWeights(1, 1 << 20);
  Instruction *End = SplitBlockAndInsertIfThen(Due, Where->getIterator(), false, Rare);
  End->setDebugLoc(Location);
  cast<Instruction>(End->getParent()->getSinglePredecessor()->getTerminator())
      ->setDebugLoc(Location);
  IRBuilder<> Slow(End);
  Slow.SetCurrentDebugLocation(Location);
  callSlow(Slow, Block);
}

} // namespace curtail
