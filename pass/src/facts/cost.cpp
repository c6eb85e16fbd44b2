#include "facts/cost.h"
#include "choose/longcalls.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DataLayout.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace curtail {

enum Costs : unsigned {
  CallOverhead = 5,
  LibraryCall = 25,
  UnknownLength = 30,
  Allocation = 40,
  Mathematics = 40,
  IntegerDivision = 10,
  FloatDivision = 5,
  Atomic = 15,
  Assembly = 4,
  Wait = 25,
};

// How many registers of the target the widest of its vectors takes.
static unsigned registersOf(const Instruction &I, const TargetTransformInfo &TTI) {
  unsigned Most = 1;
  auto Count = [&](const Value *V) {
    if (isa<FixedVectorType>(V->getType()))
      Most = std::max(Most, TTI.getNumberOfParts(V->getType()));
  };
  Count(&I);
  for (const Use &Operand : I.operands())
    Count(Operand);
  return Most;
}

// What no processor does with vectors is done as often.
static unsigned lanesOf(const Instruction &I) {
  auto *Vector = dyn_cast<FixedVectorType>(I.getType());
  return Vector ? Vector->getNumElements() : 1;
}

// What is longer, or of unknown length, charges for the rest itself; see longcalls.h.
static unsigned costOfLength(const Value *Length) {
  auto *C = dyn_cast<ConstantInt>(Length);
  return C && C->getValue().ule(LongestInline) ? 4 + unsigned(C->getZExtValue() / 32) : UnknownLength;
}

static unsigned costOfIntrinsic(const IntrinsicInst &I, const TargetTransformInfo &TTI) {
  if (auto *Memory = dyn_cast<MemIntrinsic>(&I))
    return costOfLength(Memory->getLength());
  switch (I.getIntrinsicID()) {
  case Intrinsic::lifetime_start:
  case Intrinsic::lifetime_end:
  case Intrinsic::assume:
  case Intrinsic::experimental_noalias_scope_decl:
  case Intrinsic::invariant_start:
  case Intrinsic::invariant_end:
  case Intrinsic::annotation:
  case Intrinsic::ptr_annotation:
  case Intrinsic::var_annotation: return 0;
  case Intrinsic::sqrt: return FloatDivision * registersOf(I, TTI);
  case Intrinsic::sin:
  case Intrinsic::cos:
  case Intrinsic::sincos:
  case Intrinsic::tan:
  case Intrinsic::exp:
  case Intrinsic::exp2:
  case Intrinsic::exp10:
  case Intrinsic::log:
  case Intrinsic::log2:
  case Intrinsic::log10:
  case Intrinsic::pow: return Mathematics * lanesOf(I);
  case Intrinsic::x86_sse2_pause:
  case Intrinsic::x86_rdtsc:
  case Intrinsic::x86_rdtscp: return Wait;
  default: return I.isAssumeLikeIntrinsic() ? 0 : registersOf(I, TTI);
  }
}

static unsigned costOfLibraryCall(LibFunc Function) {
  switch (Function) {
  case LibFunc_malloc:
  case LibFunc_calloc:
  case LibFunc_realloc:
  case LibFunc_free:
  case LibFunc_Znwm:
  case LibFunc_Znam:
  case LibFunc_ZdlPv:
  case LibFunc_ZdlPvm:
  case LibFunc_ZdaPv: return Allocation;
  case LibFunc_sin:
  case LibFunc_cos:
  case LibFunc_exp:
  case LibFunc_log:
  case LibFunc_pow: return Mathematics;
  default: return LibraryCall;
  }
}

bool isRealCall(const Instruction &I) {
  auto *Call = dyn_cast<CallBase>(&I);
  // Memory intrinsics may become library calls, but those never yield.
  return Call && !Call->isInlineAsm() && !isa<IntrinsicInst>(Call);
}

bool isPlainLibraryCall(const CallBase &Call, const TargetLibraryInfo &TLI) {
  LibFunc Function;
  const llvm::Function *Callee = Call.getCalledFunction();
  return Callee && Callee->isDeclaration() && TLI.getLibFunc(*Callee, Function) && TLI.has(Function) &&
         Function != LibFunc_qsort;
}

unsigned costOf(const Instruction &I, const TargetLibraryInfo &TLI, const TargetTransformInfo &TTI) {
  if (auto *Intrinsic = dyn_cast<IntrinsicInst>(&I))
    return costOfIntrinsic(*Intrinsic, TTI);
  if (auto *Call = dyn_cast<CallBase>(&I)) {
    if (Call->isInlineAsm())
      return Assembly;
    LibFunc Function;
    if (isPlainLibraryCall(*Call, TLI) && TLI.getLibFunc(*Call->getCalledFunction(), Function))
      return costOfLibraryCall(Function);
    return CallOverhead;
  }
  switch (I.getOpcode()) {
  case Instruction::PHI:
  case Instruction::BitCast:
  case Instruction::IntToPtr:
  case Instruction::PtrToInt:
  case Instruction::Freeze:
  case Instruction::ExtractValue:
  case Instruction::InsertValue:
  case Instruction::Unreachable:
  case Instruction::LandingPad: return 0;
  case Instruction::Alloca: return cast<AllocaInst>(I).isStaticAlloca() ? 0 : 5;
  case Instruction::GetElementPtr: return cast<GetElementPtrInst>(I).hasAllConstantIndices() ? 0 : 1;
  case Instruction::UDiv:
  case Instruction::SDiv:
  case Instruction::URem:
  case Instruction::SRem:
    return isa<Constant>(I.getOperand(1)) ? 4 * registersOf(I, TTI) : IntegerDivision * lanesOf(I);
  case Instruction::FDiv: return FloatDivision * registersOf(I, TTI);
  case Instruction::FRem: // a call of fmod
    return Mathematics * lanesOf(I);
  case Instruction::AtomicRMW:
  case Instruction::AtomicCmpXchg:
  case Instruction::Fence: return Atomic;
  default: return registersOf(I, TTI);
  }
}

} // namespace curtail
