#include "emit/emitter.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/PromoteMemToReg.h"

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

// The address is taken anew each time: that makes it part of the instruction that uses it.
Value *Emitter::field(IRBuilder<> &B, uint64_t Offset) {
  Value *Base = B.CreateThreadLocalAddress(&Block);
  return Offset ? B.CreateConstInBoundsGEP1_64(B.getInt8Ty(), Base, Offset) : Base;
}

Instruction *Emitter::coldBranch(Value *Due, Instruction *Before) {
  MDNode *Rare = MDBuilder(F.getContext()).createBranchWeights(1, 1 << 20);
  Instruction *End = SplitBlockAndInsertIfThen(Due, Before->getIterator(), false, Rare);
  End->setDebugLoc(locationNear(Before));
  cast<Instruction>(End->getParent()->getSinglePredecessor()->getTerminator())->setDebugLoc(locationNear(Before));
  return End;
}

Value *Emitter::loadBudget(IRBuilder<> &B, int Nest) {
  if (Nest >= 0)
    return B.CreateLoad(B.getInt64Ty(), Budgets[Nest]);
  return B.CreateAlignedLoad(B.getInt64Ty(), field(B, BudgetOffset), Align(8));
}

void Emitter::storeBudget(IRBuilder<> &B, Value *Budget, int Nest) {
  if (Nest >= 0)
    B.CreateStore(Budget, Budgets[Nest]);
  else
    B.CreateAlignedStore(Budget, field(B, BudgetOffset), Align(8));
}

// The slow path, taken if `Due`. In a nest the budget goes through memory for it.
void Emitter::slowIf(Value *Due, Instruction *Before, int Nest) {
  Builder B(coldBranch(Due, Before), Before);
  if (Nest >= 0)
    storeBudget(B, loadBudget(B, Nest), -1);
  callSlow(B, Block, Slow);
  if (Nest >= 0)
    storeBudget(B, loadBudget(B, -1), Nest);
}

// Subtracts `Work` from the budget; what is left.
Value *Emitter::charge(IRBuilder<> &B, Value *Work, int Nest) {
  // In a register it cannot wrap: `sub; js`.
  Value *Left = B.CreateSub(loadBudget(B, Nest), Work, "", false, /*HasNSW=*/Nest >= 0);
  storeBudget(B, Left, Nest);
  return Left;
}

// Charges for a safepoint, in one instruction: whether the budget in memory is below zero now. Its address
// has a base register, which is zero: with one, Zen 5 hands the budget on from one such instruction to the
// next within a cycle; without, in 6.5, which is more than the shortest iterations of an interpreter take.
Value *Emitter::spend(IRBuilder<> &B, uint64_t Units) {
  std::string Code = "subq $$" + std::to_string(Units) + ", %fs:" + BlockName + "@TPOFF($1)";
  Value *Sign = assembly(B, B.getInt8Ty(), Code, Twine("={@ccs},r,") + Clobbers, {B.getInt64(0)});
  return B.CreateTrunc(Sign, B.getInt1Ty());
}

Value *Emitter::polled(IRBuilder<> &B) {
  // Volatile: another thread writes it, so each look must be one.
  Value *Poll = B.CreateAlignedLoad(B.getInt32Ty(), field(B, PollOffset), Align(4), true);
  return B.CreateICmpNE(Poll, B.getInt32(0));
}

Value *Emitter::clockDue(IRBuilder<> &B) {
  Value *Now = B.CreateIntrinsic(B.getInt64Ty(), Intrinsic::readcyclecounter, {});
  Value *End = B.CreateAlignedLoad(B.getInt64Ty(), field(B, DeadlineOffset), Align(8));
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
  else if (Safepoint.Nest < 0 && Block.getThreadLocalMode() == GlobalValue::LocalExecTLSModel)
    Due = spend(B, Units);
  else
    Due = B.CreateICmpSLT(charge(B, B.getInt64(Units), Safepoint.Nest), B.getInt64(0));
  slowIf(Due, Safepoint.Before, Safepoint.Nest);
  // Between the safepoint and an interpreter's dispatch there must be something: an empty block goes, and
  // from one that ends in a condition code generation does not copy the dispatch.
  if (leadsToDispatch(*Safepoint.Before->getParent()))
    assembly(B, B.getVoidTy(), "", "");
}

bool leadsNowhere(const BasicBlock *BB) {
  for (unsigned Steps = 0; Steps < 8 && BB; Steps++) {
    if (isa<UnreachableInst>(BB->getTerminator()))
      return true;
    BB = BB->getSingleSuccessor();
  }
  return false;
}

// The budget goes into a register before the nest and back to memory behind it.
void Emitter::enterNest(unsigned Nest) {
  Loop *L = P.Nests[Nest];
  auto *Budget = Budgets[Nest];
  SmallVector<BasicBlock *, 4> Outside;
  for (BasicBlock *BB : predecessors(L->getHeader()))
    if (!L->contains(BB) && !is_contained(Outside, BB))
      Outside.push_back(BB);
  BasicBlock *Entry = SplitBlockPredecessors(L->getHeader(), Outside, ".curtail.in");
  Builder In(Entry->getTerminator(), &L->getHeader()->front());
  In.CreateStore(In.CreateAlignedLoad(In.getInt64Ty(), field(In, BudgetOffset), Align(8)), Budget);

  SmallSetVector<BasicBlock *, 4> Exits;
  for (BasicBlock *BB : L->blocks())
    for (BasicBlock *Next : successors(BB))
      if (!L->contains(Next) && !leadsNowhere(Next))
        Exits.insert(Next);
  for (BasicBlock *Exit : Exits) {
    SmallVector<BasicBlock *, 4> Inside;
    for (BasicBlock *BB : predecessors(Exit))
      if (L->contains(BB) && !is_contained(Inside, BB))
        Inside.push_back(BB);
    Instruction *Landing = &*Exit->getFirstInsertionPt();
    if (none_of(Inside, [](BasicBlock *BB) { return isa<IndirectBrInst>(BB->getTerminator()); }))
      Landing = SplitBlockPredecessors(Exit, Inside, ".curtail.out")->getTerminator();
    Builder B(Landing, &Exit->front());
    B.CreateAlignedStore(B.CreateLoad(B.getInt64Ty(), Budget), field(B, BudgetOffset), Align(8));
  }
}

void Emitter::run() {
  // First what needs the loops and the analyses as they were found.
  SmallVector<std::pair<WeakVH, LongCall>, 4> Long;
  for (const LongCall &Call : P.LongCalls)
    Long.push_back({WeakVH(Call.Call), Call});
  prepareChunks();
  for (unsigned Nest = 0; Nest < P.Nests.size(); Nest++) {
    IRBuilder<> B(&*F.getEntryBlock().getFirstInsertionPt());
    Budgets.push_back(B.CreateAlloca(B.getInt64Ty()));
    enterNest(Nest);
  }
  for (const Point &Safepoint : P.Points)
    emitPoint(Safepoint);
  for (unsigned At = 0; At < P.Chunks.size(); At++)
    cutLoop(At);
  for (auto &[There, Call] : Long)
    if (There) // a loop's old condition may have gone, and a search with it
      emitLongCall(Call);
  if (!Budgets.empty()) {
    DominatorTree DT(F);
    PromoteMemToReg(Budgets, DT);
  }
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
