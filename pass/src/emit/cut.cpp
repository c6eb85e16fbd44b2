// Cutting counted loops into chunks (chunk.cpp says which, and why).
//
//   preheader:  charge all iterations; fits -> the loop as it was; else -> cut
//   cut:        take the charge back -> next
//   next:       [slow path]; as many iterations as the budget allows -> the copy
//   header …    the copy of the body
//   latch:      counter == end of the chunk -> through, else -> header
//   through:    nothing left -> the loop's exit, else -> more -> next
//
// What fits goes through the loop as it was, of which neither the registers nor what comes behind it know anything
// of chunks.
//
// The iterations of a loop are counted here by how often its back edge is taken, one less than they
// are, which fits into 64 bits for every loop.
#include "emit/copy.h"
#include "emit/emitter.h"
#include "emit/notes.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Local.h"
#include "llvm/Transforms/Utils/ScalarEvolutionExpander.h"

using namespace llvm;

namespace curtail {

static const uint64_t MostTaken = uint64_t(1) << 32;

// The end of the block before the outermost loop around `L` that a value is the same in.
static Instruction *outermost(ScalarEvolution &SE, const SCEV *S, const Loop *L) {
  SCEVExpander Expander(SE, "curtail", /*PreserveLCSSA=*/false);
  Instruction *Place = L->getLoopPreheader()->getTerminator();
  while ((L = L->getParentLoop())) {
    BasicBlock *Before = L->getLoopPreheader();
    if (!Before || !SE.isLoopInvariant(S, L) || !Expander.isSafeToExpandAt(S, Before->getTerminator()))
      break;
    Place = Before->getTerminator();
  }
  return Place;
}

// A value that another loop has left behind: that one has a copy by the time it is used.
Value *Emitter::keptFor(Value *V, Instruction *Here) const {
  auto *I = dyn_cast<Instruction>(V);
  bool Left =
      I && any_of(P.Chunks, [&](const Chunk &C) { return !C.Gate && C.L->contains(I) && !C.L->contains(Here); });
  return Left ? IRBuilder<>(Here).CreateFreeze(V) : V;
}

void Emitter::prepare(const Chunk &C) {
  Prepared &R = Ready.emplace_back();
  R.Latch = cast<BranchInst>(C.Latch->getTerminator());
  if (C.Gate)
    return;
  SCEVExpander Expander(SE, "curtail", /*PreserveLCSSA=*/false);
  Instruction *Here = C.Preheader->getTerminator(), *There = outermost(SE, C.Taken, C.L);
  R.Start = keptFor(Expander.expandCodeFor(C.Start, C.Counter->getType(), Here->getIterator()), Here);
  Value *Taken = Expander.expandCodeFor(C.Taken, C.Taken->getType(), There->getIterator());
  Builder B(There, There);
  // Where the loop is never reached, its count may be poison, and is of no effect.
  R.Taken = B.CreateZExt(isa<Constant>(Taken) ? Taken : B.CreateFreeze(Taken), B.getInt64Ty());
  R.Work = B.getInt64(inUnits(C.Mean));
  R.Total = B.CreateAdd(B.CreateMul(R.Taken, R.Work), R.Work);
  // No program means so many iterations. Their work may not be a number of 64 bits; it fits into no budget.
  if (isa<Constant>(R.Taken) && SE.getUnsignedRangeMax(C.Taken).ugt(MostTaken))
    R.Total = B.CreateSelect(B.CreateICmpUGT(R.Taken, B.getInt64(MostTaken)), B.getInt64(uint64_t(1) << 62), R.Total);
}

// The counter after so many steps.
static Value *advance(IRBuilder<> &B, Value *Counter, Value *Times, const Chunk &C) {
  const APInt &Step = cast<SCEVConstant>(C.Step)->getAPInt();
  Type *T = Counter->getType();
  Type *Offset = T->isPointerTy() ? B.getIntNTy(Step.getBitWidth()) : T;
  Value *Distance = B.CreateMul(B.CreateZExtOrTrunc(Times, Offset), ConstantInt::get(Offset, Step));
  return T->isPointerTy() ? B.CreateGEP(B.getInt8Ty(), Counter, Distance) : B.CreateAdd(Counter, Distance);
}

// The preheader: all iterations are charged, and what comes before them. Leads to the loop as it was, or to `Undo`,
// which takes the charge back and leads to `Next`.
void Emitter::enterLoop(const Chunk &C, const Prepared &R, BasicBlock *Before, BasicBlock *Undo, BasicBlock *Next) {
  auto *Fits = BasicBlock::Create(F.getContext(), "curtail.fits", &F, C.Header);
  Instruction *Entry = Before->getTerminator(), *End = BranchInst::Create(C.Header, Fits);
  End->setDebugLoc(Entry->getDebugLoc());
  C.Header->replacePhiUsesWith(Before, Fits);
  noteLoop(End, 0, C.Iteration, C.L->getLoopDepth(), 1);
  Builder B(Entry, Entry);
  Value *Total = B.CreateAdd(R.Total, B.getInt64(uint64_t(C.Before + 0.5)));
  Value *Had = loadBudget(B);
  storeBudget(B, B.CreateSub(Had, Total));
  // Unsigned: between safepoints the budget is not negative, and a total of 2^63 or more does not fit either.
  MDNode *Rare = MDBuilder(F.getContext()).createBranchWeights(1, 1 << 20);
  B.CreateCondBr(B.CreateICmpULT(Had, Total), Undo, Fits, Rare);
  B.SetInsertPoint(Undo);
  storeBudget(B, B.CreateAdd(loadBudget(B), R.Total));
  B.CreateBr(Next);
  Entry->eraseFromParent();
}

// Where a loop is entered from, as it is by now.
static BasicBlock *blockBefore(const BasicBlock *Header, const BasicBlock *Latch) {
  for (const BasicBlock *BB : predecessors(Header))
    if (BB != Latch)
      return const_cast<BasicBlock *>(BB);
  llvm_unreachable("a loop without an entry");
}

// On the back edge: the counter modulo the stride is 0 -> safepoint.
void Emitter::gateLoop(const Chunk &C, const Prepared &R) {
  BasicBlock *Latch = R.Latch->getParent(), *Before = blockBefore(C.Header, Latch);
  BasicBlock *Edge = SplitEdge(Latch, C.Header);
  Builder B(Edge->getTerminator(), Latch->getTerminator());
  const APInt &Step = cast<SCEVConstant>(C.Step)->getAPInt();
  Value *Counter = C.Gate;
  if (Counter->getType()->isPointerTy())
    Counter = B.CreatePtrToInt(Counter, B.getIntNTy(Step.getBitWidth()));
  uint64_t Mask = uint64_t(C.Stride - 1) << Step.countr_zero();
  Value *Low = B.CreateAnd(Counter, ConstantInt::get(Counter->getType(), Mask));
  Value *Zero = B.CreateICmpEQ(Low, ConstantInt::get(Counter->getType(), 0));
  Instruction *Rarely = coldBranch(Zero, Edge->getTerminator());
  emitPoint({Rarely, C.Stride * C.Mean});
  // Where the header begins with a test, code generation may repeat that in the latch: then two edges lead back.
  noteLoop(Before->getTerminator(), C.Stride, C.Iteration, C.L->getLoopDepth(), 2);
}

void Emitter::cutLoop(const Chunk &C, const Prepared &R) {
  BasicBlock *Before = blockBefore(C.Header, R.Latch->getParent());
  ValueToValueMapTy Copies;
  copyLoop(*C.L, Copies);
  auto *LatchEnd = cast<BranchInst>(Copies.lookup(R.Latch));
  BasicBlock *Latch = LatchEnd->getParent(), *Header = cast<BasicBlock>(Copies.lookup(C.Header));
  Value *Test = Copies.lookup(C.Counter);
  const bool OnTrue = LatchEnd->getSuccessor(0) == Header;
  BasicBlock *Exit = LatchEnd->getSuccessor(OnTrue);
  LLVMContext &Context = F.getContext();
  auto *Next = BasicBlock::Create(Context, "curtail.next", &F, Header);
  auto *Undo = BasicBlock::Create(Context, "curtail.cut", &F, Next);
  auto *Through = BasicBlock::Create(Context, "curtail.through", &F, Exit);
  auto *More = BasicBlock::Create(Context, "curtail.more", &F, Next);
  // Of the chunk to come: iterations after the first, and the counter at its first latch. And what the header has.
  auto *Left = PHINode::Create(R.Taken->getType(), 2, "", Next);
  auto *Counter = PHINode::Create(Test->getType(), 2, "", Next);
  for (PHINode &Phi : Header->phis()) {
    auto *Carried = PHINode::Create(Phi.getType(), 2, "", Next);
    Carried->addIncoming(Phi.getIncomingValueForBlock(Before), Undo);
    Carried->addIncoming(Phi.getIncomingValueForBlock(Latch), More);
    Phi.setIncomingValue(Phi.getBasicBlockIndex(Before), Carried);
  }
  enterLoop(C, R, Before, Undo, Next);
  Left->addIncoming(R.Taken, Undo);
  Counter->addIncoming(R.Start, Undo);

  // Between two chunks: the slow path if there is not enough for even one iteration, and how far the next one goes.
  Instruction *End = BranchInst::Create(Header, Next);
  Builder B(End, LatchEnd);
  End->setDebugLoc(B.getCurrentDebugLocation());
  slowIf(B.CreateICmpSLT(loadBudget(B), R.Work), End);
  B.SetInsertPoint(End);
  // Not negative: it is enough for an iteration, or has been granted.
  Value *Had = loadBudget(B);
  Value *Most = B.CreateBinaryIntrinsic(Intrinsic::usub_sat, B.CreateUDiv(Had, R.Work), B.getInt64(1));
  Value *Times = B.CreateBinaryIntrinsic(Intrinsic::umin, Left, Most);
  // One iteration there is in any case, and it may be more than is left.
  Value *Work = B.CreateAdd(B.CreateMul(Times, R.Work), R.Work);
  storeBudget(B, B.CreateBinaryIntrinsic(Intrinsic::usub_sat, Had, Work));
  Value *Last = advance(B, Counter, Times, C), *Rest = B.CreateSub(Left, Times);
  Header->replacePhiUsesWith(Before, End->getParent());
  noteLoop(End, 0, C.Iteration, C.L->getLoopDepth() + 1, 1);

  // The latch. Mostly that was all.
  B.SetInsertPoint(LatchEnd);
  Value *Old = LatchEnd->getCondition();
  LatchEnd->setCondition(OnTrue ? B.CreateICmpNE(Test, Last) : B.CreateICmpEQ(Test, Last));
  LatchEnd->setSuccessor(OnTrue, Through);
  RecursivelyDeleteTriviallyDeadInstructions(Old);
  MDNode *Mostly = MDBuilder(Context).createBranchWeights(1 << 20, 1);
  B.SetInsertPoint(Through);
  B.CreateCondBr(B.CreateICmpEQ(Rest, B.getInt64(0)), Exit, More, Mostly);
  Exit->replacePhiUsesWith(Latch, Through);
  B.SetInsertPoint(More);
  Left->addIncoming(B.CreateSub(Rest, B.getInt64(1)), More);
  Counter->addIncoming(advance(B, Test, B.getInt64(1), C), More);
  B.CreateBr(Next);
}

} // namespace curtail
