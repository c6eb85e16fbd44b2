#include "emit/emitter.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace curtail {

static const char BlockName[] = "curtail_safepoint";

static bool initialExec(const Module &M, const Options &O) {
  if (O.Model != Tls::Auto)
    return O.Model == Tls::Initial;
  return M.getPICLevel() != PICLevel::NotPIC && M.getPIELevel() == PIELevel::Default;
}

GlobalVariable &declareBlock(Module &M, const Options &O) {
  GlobalVariable *Block = M.getNamedGlobal(BlockName);
  if (!Block) {
    Type *T = ArrayType::get(Type::getInt8Ty(M.getContext()), BlockSize);
    Block = new GlobalVariable(M, T, false, GlobalValue::ExternalLinkage, nullptr, BlockName);
    Block->setAlignment(Align(64));
  }
  bool Initial = initialExec(M, O);
  Block->setThreadLocalMode(Initial ? GlobalValue::InitialExecTLSModel : GlobalValue::LocalExecTLSModel);
  Block->setDSOLocal(!Initial);
  return *Block;
}

Emitter::Emitter(Function &F, const Plan &P, GlobalVariable &Block, const Options &O, const Analyses &A)
    : F(F), P(P), Block(Block), Opts(O), SE(A.SE), Slow(slowPathFrom(F, A.TTI)) {}

static DebugLoc locationNear(const Instruction *I) {
  for (const Instruction *J = I; J; J = J->getNextNode())
    if (J->getDebugLoc())
      return J->getDebugLoc();
  for (const Instruction *J = I; J; J = J->getPrevNode())
    if (J->getDebugLoc())
      return J->getDebugLoc();
  const Function *F = I->getFunction();
  if (DISubprogram *SP = F->getSubprogram())
    return DILocation::get(F->getContext(), SP->getLine(), 0, SP);
  return DebugLoc();
}

Emitter::Builder::Builder(Instruction *Before, const Instruction *Source) : IRBuilder<>(Before) {
  SetCurrentDebugLocation(locationNear(Source));
}

Instruction *Emitter::coldBranch(Value *Due, Instruction *Before) {
  return rarelyBefore(Before, Due, locationNear(Before));
}

Value *Emitter::loadBudget(IRBuilder<> &B) {
  return B.CreateAlignedLoad(B.getInt64Ty(), field(B, Block, BudgetOffset), Align(8));
}

void Emitter::storeBudget(IRBuilder<> &B, Value *Budget) {
  B.CreateAlignedStore(Budget, field(B, Block, BudgetOffset), Align(8));
}

// The slow path, taken if `Due`.
void Emitter::slowIf(Value *Due, Instruction *Before) {
  Builder B(coldBranch(Due, Before), Before);
  callSlow(B, Block, Slow);
}

// Charges for a safepoint, in one instruction: whether the budget is below zero now. Its address
// has a base register, which is zero: with one, Zen 5 hands the budget on from one such instruction to the
// next within a cycle; without, in 6.5, which is more than the shortest iterations of an interpreter take.
Value *Emitter::spend(IRBuilder<> &B, uint64_t Units) {
  std::string Code = "subq $$" + std::to_string(Units) + ", %fs:" + BlockName + "@TPOFF($1)";
  Value *Sign = assembly(B, B.getInt8Ty(), Code, Twine("={@ccs},r,") + Clobbers, {B.getInt64(0)});
  return B.CreateTrunc(Sign, B.getInt1Ty());
}

Value *Emitter::polled(IRBuilder<> &B) {
  // Volatile: another thread writes it, so each look must be one.
  Value *Poll = B.CreateAlignedLoad(B.getInt32Ty(), field(B, Block, PollOffset), Align(4), true);
  return B.CreateICmpNE(Poll, B.getInt32(0));
}

Value *Emitter::clockDue(IRBuilder<> &B) {
  Value *Now = B.CreateIntrinsic(B.getInt64Ty(), Intrinsic::readcyclecounter, {});
  Value *End = B.CreateAlignedLoad(B.getInt64Ty(), field(B, Block, DeadlineOffset), Align(8));
  return B.CreateICmpUGE(Now, End);
}

uint64_t Emitter::inUnits(double Work) { return uint64_t(std::clamp(Work + 0.5, 1.0, 1e9)); }

// Whether what follows is an indirect jump, or a block that only joins the ways to one.
static bool leadsToDispatch(const BasicBlock &BB) {
  const BasicBlock *Next = BB.getSingleSuccessor();
  if (Next && &*Next->getFirstNonPHIIt() == Next->getTerminator())
    Next = Next->getSingleSuccessor();
  return Next && isa<IndirectBrInst>(Next->getTerminator());
}

void Emitter::emitPoint(const Point &Safepoint) {
  Builder B(Safepoint.Before, Safepoint.Before);
  uint64_t Units = inUnits(Safepoint.Mean);
  Value *Due;
  if (Opts.Safepoints == Kind::Flag)
    Due = polled(B);
  else if (Opts.Safepoints == Kind::Reads)
    Due = clockDue(B);
  else if (Block.getThreadLocalMode() == GlobalValue::LocalExecTLSModel)
    Due = spend(B, Units);
  else {
    Value *Left = B.CreateSub(loadBudget(B), B.getInt64(Units));
    storeBudget(B, Left);
    Due = B.CreateICmpSLT(Left, B.getInt64(0));
  }
  slowIf(Due, Safepoint.Before);
  // Between the safepoint and an interpreter's dispatch there must be something: an empty block goes, and
  // from one that ends in a condition code generation does not copy the dispatch.
  if (leadsToDispatch(*Safepoint.Before->getParent()))
    assembly(B, B.getVoidTy(), "", "");
}

void Emitter::run() {
  // First what needs the loops and the analyses as they were found.
  SmallVector<std::pair<WeakVH, LongCall>, 4> Long;
  for (const LongCall &Call : P.LongCalls)
    Long.push_back({WeakVH(Call.Call), Call});
  for (const Chunk &C : P.Chunks)
    prepare(C);
  for (const Point &Safepoint : P.Points)
    emitPoint(Safepoint);
  for (auto [C, R] : zip(P.Chunks, Ready))
    C.Gate ? gateLoop(C, R) : cutLoop(C, R);
  for (auto &[There, Call] : Long)
    if (There) // a loop's old condition may have gone, and a search with it
      emitLongCall(Call);
  // The stub's frame lies right below; and what was known of the memory effects holds no longer.
  F.addFnAttr(Attribute::NoRedZone);
  // What stands elsewhere in its cache line than before is sometimes a fifth slower, small functions
  // above all.
  if (!F.hasOptSize() && F.getAlign().valueOrOne() < Align(64))
    F.setAlignment(Align(64));
  F.setMemoryEffects(MemoryEffects::unknown());
}

void emit(Function &F, const Plan &P, GlobalVariable &Block, const Options &O, const Analyses &A) {
  Emitter(F, P, Block, O, A).run();
}

} // namespace curtail
