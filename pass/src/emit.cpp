#include "emit.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
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
    Block->setAlignment(Align(8));
  }
  bool Initial = initialExec(M, O);
  Block->setThreadLocalMode(Initial ? GlobalValue::InitialExecTLSModel
                                    : GlobalValue::LocalExecTLSModel);
  Block->setDSOLocal(!Initial);
  return *Block;
}

static bool usesX87(const Function &F) {
  auto IsX87 = [](const Value *V) { return V->getType()->getScalarType()->isX86_FP80Ty(); };
  return any_of(instructions(F), [&](const Instruction &I) {
    return IsX87(&I) || any_of(I.operands(), [&](const Use &U) { return IsX87(U); });
  });
}

namespace {

class Emitter {
public:
  Emitter(Function &F, const Plan &P, GlobalVariable &Block, const Options &O);
  void run();

private:
  void enterNest(unsigned Nest);
  void emitDirect(const Point &Safepoint);
  void emitInNest(const Point &Safepoint);
  Instruction *coldBranch(Value *Due, Instruction *Before);
  void callSlow(IRBuilder<> &B);
  Value *field(IRBuilder<> &B, uint64_t Offset);

  Function &F;
  const Plan &P;
  GlobalVariable &Block;
  const Options &Opts;
  bool X87;
  // One per nest: the budget while in it. Becomes a register at the end.
  SmallVector<AllocaInst *, 4> Budgets;
};

} // namespace

Emitter::Emitter(Function &F, const Plan &P, GlobalVariable &Block, const Options &O)
    : F(F), P(P), Block(Block), Opts(O), X87(usesX87(F)) {}

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

namespace {
// Inserts before one instruction, with the location of another.
struct Builder : IRBuilder<> {
  Builder(Instruction *Before, const Instruction *Source) : IRBuilder<>(Before) {
    SetCurrentDebugLocation(locationNear(Source));
  }
};
} // namespace

// The address is taken anew each time: that makes it part of the instruction that uses it.
Value *Emitter::field(IRBuilder<> &B, uint64_t Offset) {
  Value *Base = B.CreateThreadLocalAddress(&Block);
  return Offset ? B.CreateConstInBoundsGEP1_64(B.getInt8Ty(), Base, Offset) : Base;
}

// An inline call: to the compiler it clobbers nothing (the stub saves all), so that the code around
// it keeps its registers, and a leaf function stays one.
void Emitter::callSlow(IRBuilder<> &B) {
  bool Local = Block.getThreadLocalMode() == GlobalValue::LocalExecTLSModel;
  StringRef Call = Local ? "call curtail_safepoint_slow"
                         : "call *curtail_safepoint_slow@GOTPCREL(%rip)";
  std::string Clobbers = "~{memory},~{dirflag},~{fpsr},~{flags}";
  if (X87)
    for (unsigned I = 0; I < 8; I++)
      Clobbers += I == 0 ? ",~{st}" : ",~{st(" + std::to_string(I) + ")}";
  auto *Type = FunctionType::get(B.getVoidTy(), false);
  CallInst *Slow = B.CreateCall(Type, InlineAsm::get(Type, Call, Clobbers, true));
  Slow->addFnAttr(Attribute::NoUnwind);
  Slow->addFnAttr(Attribute::Cold);
}

Instruction *Emitter::coldBranch(Value *Due, Instruction *Before) {
  MDNode *Rare = MDBuilder(F.getContext()).createBranchWeights(1, 1 << 20);
  Instruction *End = SplitBlockAndInsertIfThen(Due, Before->getIterator(), false, Rare);
  End->setDebugLoc(locationNear(Before));
  cast<Instruction>(End->getParent()->getSinglePredecessor()->getTerminator())
      ->setDebugLoc(locationNear(Before));
  return End;
}

static uint64_t costOfPoint(const Point &Safepoint) {
  return uint64_t(std::clamp(Safepoint.Mean + 0.5, 1.0, 1e9));
}

void Emitter::emitDirect(const Point &Safepoint) {
  Builder B(Safepoint.Before, Safepoint.Before);
  Value *Due;
  if (Opts.Safepoints == Kind::Flag) {
    // Volatile: another thread writes it, so each look must be one.
    Value *Poll = B.CreateAlignedLoad(B.getInt32Ty(), field(B, PollOffset), Align(4), true);
    Due = B.CreateICmpNE(Poll, B.getInt32(0));
  } else {
    Value *Address = field(B, BudgetOffset);
    Value *Old = B.CreateAlignedLoad(B.getInt64Ty(), Address, Align(8));
    Value *New = B.CreateSub(Old, B.getInt64(costOfPoint(Safepoint)));
    B.CreateAlignedStore(New, Address, Align(8));
    Due = B.CreateICmpSLT(New, B.getInt64(0));
  }
  Builder Slow(coldBranch(Due, Safepoint.Before), Safepoint.Before);
  callSlow(Slow);
}

void Emitter::emitInNest(const Point &Safepoint) {
  AllocaInst *Budget = Budgets[Safepoint.Nest];
  Builder B(Safepoint.Before, Safepoint.Before);
  Value *Cost = B.getInt64(costOfPoint(Safepoint));
  Value *Old = B.CreateLoad(B.getInt64Ty(), Budget);
  Value *New = B.CreateSub(Old, Cost, "", false, /*HasNSW=*/true);
  B.CreateStore(New, Budget);
  Value *Due = B.CreateICmpSLT(New, B.getInt64(0)); // `sub; js`
  Builder Slow(coldBranch(Due, Safepoint.Before), Safepoint.Before);
  Slow.CreateAlignedStore(New, field(Slow, BudgetOffset), Align(8));
  callSlow(Slow);
  Slow.CreateStore(Slow.CreateAlignedLoad(Slow.getInt64Ty(), field(Slow, BudgetOffset), Align(8)),
                   Budget);
}

// A block whose paths all end in `unreachable`: what the budget is there does not matter.
static bool leadsNowhere(const BasicBlock *BB) {
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
    BasicBlock *Landing = SplitBlockPredecessors(Exit, Inside, ".curtail.out");
    Builder B(Landing->getTerminator(), &Exit->front());
    B.CreateAlignedStore(B.CreateLoad(B.getInt64Ty(), Budget), field(B, BudgetOffset), Align(8));
  }
}

void Emitter::run() {
  // Splitting around nests first: it needs the loops as they were found.
  for (unsigned Nest = 0; Nest < P.Nests.size(); Nest++) {
    IRBuilder<> B(&*F.getEntryBlock().getFirstInsertionPt());
    Budgets.push_back(B.CreateAlloca(B.getInt64Ty()));
    enterNest(Nest);
  }
  for (const Point &Safepoint : P.Points) {
    if (Safepoint.Nest < 0)
      emitDirect(Safepoint);
    else
      emitInNest(Safepoint);
  }
  if (!Budgets.empty()) {
    DominatorTree DT(F);
    PromoteMemToReg(Budgets, DT);
  }
  // The stub's frame lies right below; and what was known of the memory effects holds no longer.
  F.addFnAttr(Attribute::NoRedZone);
  F.setMemoryEffects(MemoryEffects::unknown());
}

void emit(Function &F, const Plan &P, GlobalVariable &Block, const Options &O) {
  Emitter(F, P, Block, O).run();
}

} // namespace curtail
