#include "choose/longcalls.h"
#include "emit/emitter.h"
#include "facts/facts.h"
#include "llvm/Analysis/MemoryBuiltins.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

using namespace llvm;

namespace curtail {

// Up to so many bytes, a call of unknown length costs what cost.cpp says.
static const uint64_t ShortEnough = 1024;

namespace {
struct Shape {
  const char *Callee = nullptr;
  int Length = -1;      // argument
  unsigned Objects = 1; // the first so many arguments are what the length is of
};
} // namespace

bool isCalledInLoops(const Function &F) {
  static constexpr StringLiteral Looping[] = {"qsort", "qsort_r", "lfind", "lsearch", "twalk", "twalk_r"};
  return any_of(F.uses(), [](const Use &U) {
    auto *Call = dyn_cast<CallBase>(U.getUser());
    const Function *Callee = Call && Call->isArgOperand(&U) ? Call->getCalledFunction() : nullptr;
    return Callee && Callee->isDeclaration() && is_contained(Looping, Callee->getName());
  });
}

static Shape shapeOfIntrinsic(const IntrinsicInst &I) {
  // What must become code in line, or may yield nowhere, is none of these.
  auto *Memory = dyn_cast<MemIntrinsic>(&I);
  if (!Memory || Memory->isVolatile() || Memory->getDestAddressSpace() != 0)
    return {};
  switch (I.getIntrinsicID()) {
  case Intrinsic::memcpy:
  case Intrinsic::memmove:
    if (cast<MemTransferInst>(I).getSourceAddressSpace() != 0)
      return {};
    return {I.getIntrinsicID() == Intrinsic::memcpy ? "curtail_memcpy" : "curtail_memmove", 2, 2};
  case Intrinsic::memset: return {"curtail_memset", 2, 1};
  default: return {};
  }
}

static Shape shapeOf(const CallInst &Call, const TargetLibraryInfo &TLI) {
  if (auto *I = dyn_cast<IntrinsicInst>(&Call))
    return shapeOfIntrinsic(*I);
  LibFunc Function;
  const llvm::Function *Callee = Call.getCalledFunction();
  if (!Callee || !Callee->isDeclaration() || !TLI.getLibFunc(Call, Function) || !TLI.has(Function))
    return {};
  switch (Function) {
  case LibFunc_memcpy: return {"curtail_memcpy", 2, 2};
  case LibFunc_memmove: return {"curtail_memmove", 2, 2};
  case LibFunc_memset: return {"curtail_memset", 2, 1};
  case LibFunc_memcmp:
    // Which of two is less, the first bytes mostly say; and sorting asks often.
    if (!isOnlyUsedInZeroEqualityComparison(&Call))
      return {};
    [[fallthrough]];
  case LibFunc_bcmp: return {"curtail_memcmp", 2, 2};
  case LibFunc_memchr: return {"curtail_memchr", 2, 1};
  case LibFunc_strlen: return {"curtail_strlen"};
  case LibFunc_strchr: return {"curtail_strchr"};
  default: return {};
  }
}

// The most bytes that an access may touch, or the largest number.
static uint64_t mostBytes(const CallInst &Call, const Shape &S, ScalarEvolution &SE, const TargetLibraryInfo &TLI) {
  uint64_t Most = UINT64_MAX;
  if (S.Length >= 0)
    Most = SE.getUnsignedRangeMax(SE.getSCEV(Call.getArgOperand(S.Length))).getLimitedValue();
  ObjectSizeOpts Largest;
  Largest.EvalMode = ObjectSizeOpts::Mode::Max;
  for (unsigned I = 0; I < S.Objects; I++) {
    uint64_t Size;
    if (getObjectSize(Call.getArgOperand(I), Size, Call.getDataLayout(), &TLI, Largest))
      Most = std::min(Most, Size);
  }
  return Most;
}

std::optional<LongCall> longCallAt(const Facts &F, Instruction &I) {
  auto *Call = dyn_cast<CallInst>(&I);
  if (!Call || F.Opts.Safepoints == Kind::Reads || !F.mayPlaceIn(*I.getParent()) || F.Opts.KeepOut.containsPlace(I) ||
      Call->isMustTailCall() || Call->hasOperandBundles() || Call->getCallingConv() != CallingConv::C)
    return std::nullopt;
  Shape S = shapeOf(*Call, F.A.TLI);
  if (!S.Callee)
    return std::nullopt;
  auto *Constant = S.Length < 0 ? nullptr : dyn_cast<ConstantInt>(Call->getArgOperand(S.Length));
  if (Constant ? Constant->getValue().ule(LongestInline) : mostBytes(*Call, S, F.A.SE, F.A.TLI) <= ShortEnough)
    return std::nullopt;
  // A search ends where it finds something: its length says too little to leave the way for it.
  bool Search =
      S.Length < 0 || StringRef(S.Callee) == "curtail_memchr" || (Constant && StringRef(S.Callee) == "curtail_memcmp");
  auto When = Search ? LongCall::WhileArmed : Constant ? LongCall::Always : LongCall::ByLength;
  return LongCall{Call, S.Callee, When, S.Length};
}

SmallVector<LongCall, 4> findLongCalls(const Facts &F) {
  SmallVector<LongCall, 4> Found;
  for (BasicBlock *BB : F.Order)
    for (Instruction &I : *BB)
      if (std::optional<LongCall> Long = longCallAt(F, I))
        Found.push_back(*Long);
  return Found;
}

Value *Emitter::callRuntime(IRBuilder<> &B, const LongCall &Long) {
  const CallInst &Call = *Long.Call;
  unsigned Count = Long.Length >= 0 ? Long.Length + 1 : Call.arg_size();
  SmallVector<Value *, 3> Arguments;
  SmallVector<Type *, 3> Types;
  for (unsigned I = 0; I < Count; I++) {
    Value *V = Call.getArgOperand(I);
    if (int(I) == Long.Length)
      V = B.CreateZExt(V, B.getInt64Ty());
    else if (V->getType()->isIntegerTy()) // a byte, of the intrinsic
      V = B.CreateZExt(V, B.getInt32Ty());
    Arguments.push_back(V);
    Types.push_back(V->getType());
  }
  Type *Returned = Call.getType()->isVoidTy() ? B.getPtrTy() : Call.getType();
  FunctionCallee Callee = F.getParent()->getOrInsertFunction(Long.Callee, FunctionType::get(Returned, Types, false));
  if (auto *Declared = dyn_cast<Function>(Callee.getCallee()))
    Declared->setDSOLocal(Block.isDSOLocal());
  CallInst *Result = B.CreateCall(Callee, Arguments);
  Result->addFnAttr(Attribute::NoUnwind);
  return Result;
}

void Emitter::emitLongCall(const LongCall &Long) {
  CallInst *Call = Long.Call;
  Builder B(Call, Call);
  if (Long.When == LongCall::Always) {
    Value *Result = callRuntime(B, Long);
    if (!Call->getType()->isVoidTy())
      Call->replaceAllUsesWith(Result);
    Call->eraseFromParent();
    return;
  }
  Value *Takes;
  if (Long.When == LongCall::ByLength) {
    Value *Length = Call->getArgOperand(Long.Length);
    Takes = B.CreateICmpUGT(Length, ConstantInt::get(Length->getType(), ShortEnough));
  } else {
    Value *Mode = B.CreateAlignedLoad(B.getInt32Ty(), field(B, Block, ModeOffset), Align(4));
    Takes = B.CreateICmpNE(Mode, B.getInt32(0));
  }
  MDNode *Rare = MDBuilder(F.getContext()).createBranchWeights(1, 1 << 20);
  Instruction *Apart, *Plain;
  SplitBlockAndInsertIfThenElse(Takes, Call->getIterator(), &Apart, &Plain, Rare);
  cast<Instruction>(Apart->getParent()->getSinglePredecessor()->getTerminator())->setDebugLoc(Call->getDebugLoc());
  BasicBlock *Behind = Call->getParent();
  Call->moveBefore(Plain->getIterator());
  for (Instruction *End : {Apart, Plain})
    End->setDebugLoc(Call->getDebugLoc());
  Builder InApart(Apart, Call);
  Value *Result = callRuntime(InApart, Long);
  if (Call->use_empty())
    return;
  // Before what debug information says of the first instruction, too.
  PHINode *Either = PHINode::Create(Call->getType(), 2, "", Behind->begin());
  Either->setDebugLoc(Call->getDebugLoc());
  Call->replaceAllUsesWith(Either);
  Either->addIncoming(Result, Apart->getParent());
  Either->addIncoming(Call, Plain->getParent());
}

} // namespace curtail
