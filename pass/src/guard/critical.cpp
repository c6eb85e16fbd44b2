#include "guard/critical.h"
#include "emit/emit.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

using namespace llvm;

namespace curtail {

Value *field(IRBuilder<> &B, GlobalVariable &Block, uint64_t Offset) {
  Value *Base = B.CreateThreadLocalAddress(&Block);
  return Offset ? B.CreateConstInBoundsGEP1_64(B.getInt8Ty(), Base, Offset) : Base;
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

void changeDepthBefore(Instruction *Where, GlobalVariable &Block, int By, const DebugLoc &Location) {
  IRBuilder<> B(Where);
  B.SetCurrentDebugLocation(Location);
  changeDepth(B, Block, B.getInt32(By));
}

static bool usesX87(const Function &F) {
  auto IsX87 = [](const Value *V) { return V->getType()->getScalarType()->isX86_FP80Ty(); };
  return any_of(instructions(F), [&](const Instruction &I) {
    return IsX87(&I) || any_of(I.operands(), [&](const Use &U) { return IsX87(U); });
  });
}

// Whether more than xmm0-15 may be live. Masked loads came with AVX; other calling conventions may
// have a callee keep what its caller uses.
static bool usesWideRegisters(const TargetTransformInfo &TTI, const Function &F) {
  if (F.getCallingConv() != CallingConv::C && F.getCallingConv() != CallingConv::Fast)
    return true;
  auto *Vector = FixedVectorType::get(Type::getFloatTy(F.getContext()), 4);
  return TTI.isLegalMaskedLoad(Vector, Align(4), 0);
}

SlowPath slowPathFrom(const Function &F, const TargetTransformInfo &TTI) {
  return {usesX87(F), !usesWideRegisters(TTI, F)};
}

const char Clobbers[] = "~{memory},~{dirflag},~{fpsr},~{flags}";

CallInst *assembly(IRBuilder<> &B, Type *Result, StringRef Code, const Twine &Constraints, ArrayRef<Value *> Operands) {
  SmallVector<Type *, 1> Types;
  for (Value *V : Operands)
    Types.push_back(V->getType());
  auto *Type = FunctionType::get(Result, Types, false);
  auto *Text = InlineAsm::get(Type, Code, Constraints.str(), /*hasSideEffects=*/true);
  CallInst *Call = B.CreateCall(Type, Text, Operands);
  Call->addFnAttr(Attribute::NoUnwind);
  return Call;
}

void callSlow(IRBuilder<> &B, GlobalVariable &Block, SlowPath How) {
  bool Local = Block.getThreadLocalMode() == GlobalValue::LocalExecTLSModel;
  std::string Name = How.Narrow ? "curtail_safepoint_slow_sse" : "curtail_safepoint_slow";
  std::string Call = Local ? "call " + Name : "call *" + Name + "@GOTPCREL(%rip)";
  std::string Constraints = Clobbers;
  if (How.X87)
    Constraints += ",~{st},~{st(1)},~{st(2)},~{st(3)},~{st(4)},~{st(5)},~{st(6)},~{st(7)}";
  CallInst *Slow = assembly(B, B.getVoidTy(), Call, Constraints);
  Slow->addFnAttr(Attribute::Cold);
  // The stub's frame lies right below the caller's.
  B.GetInsertBlock()->getParent()->addFnAttr(Attribute::NoRedZone);
}

Instruction *rarelyBefore(Instruction *Before, Value *Due, const DebugLoc &Location) {
  MDNode *Rare = MDBuilder(Before->getContext()).createBranchWeights(1, 1 << 20);
  Instruction *End = SplitBlockAndInsertIfThen(Due, Before->getIterator(), false, Rare);
  End->setDebugLoc(Location);
  cast<Instruction>(End->getParent()->getSinglePredecessor()->getTerminator())->setDebugLoc(Location);
  return End;
}

} // namespace curtail
