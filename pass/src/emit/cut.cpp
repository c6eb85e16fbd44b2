// Cutting counted loops into chunks (chunk.cpp says which, and why).
//
//   preheader:  charge all iterations; fits -> run, with Last as the end; else -> next
//   next:       [slow path]; as many iterations as the budget allows -> run
//   run:        the loop's entry
//   header …    the body, untouched
//   latch:      counter == end of the chunk -> through, else -> header
//   through:    nothing left -> the loop's exit, else -> next
//
// Of a small loop it is a copy that is cut: what fits goes through the loop as it was, of which neither
// the registers nor what comes behind it know anything of chunks.
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

struct Emitter::Cut {
  const Chunk &C;
  const Prepared &R;
  BranchInst *Entry;             // the preheader's terminator
  BranchInst *Latch;             // of what is cut, the loop or its copy; so are these:
  BasicBlock *Header, *Exit;
  Instruction *Test;             // what the latch compares
  BasicBlock *Next = nullptr, *NextEnd = nullptr, *Run = nullptr, *Through = nullptr, *More = nullptr;
  BasicBlock *Fits = nullptr;    // where a run begins that need not be cut
  // Phis of Next: iterations to come after the first of the chunk, and, where no phi of the loop says
  // it, the counter at its first latch.
  PHINode *Left = nullptr, *Counter = nullptr;
  PHINode *Index = nullptr;      // the loop's, in Next
  // What a copy alone needs registers for, the function saves on entry: it is to need few. Its counter
  // is hidden from code generation, which would have several more count along, and so is what it
  // divides by. Not within loops: there, addresses are best computed for loop and copy alike.
  bool Frugal = false;
  // Phis of Run: the counter's last value in the chunk, iterations left behind it.
  PHINode *End = nullptr, *Rest = nullptr;
};

// The work of all iterations. Where an iteration does several steps of what is counted, that is not
// divided first: the charge is a little more then. The last iteration's steps are added before the product,
// and mostly what was subtracted for it cancels them.
Value *Emitter::totalOf(Builder &B, const Chunk &C, const Prepared &R) {
  auto *Quotient = dyn_cast<SCEVUDivExpr>(C.Taken);
  auto *Steps = Quotient ? dyn_cast<SCEVConstant>(Quotient->getRHS()) : nullptr;
  auto *Work = dyn_cast<ConstantInt>(R.Work);
  if (!Steps || !Work || Work->getZExtValue() / 4 < Steps->getAPInt().getLimitedValue())
    return B.CreateAdd(B.CreateMul(R.Taken, R.Work), R.Work);
  Type *T = B.getInt64Ty();
  uint64_t Step = Steps->getAPInt().getZExtValue();
  const SCEV *Counted = SE.getNoopOrZeroExtend(Quotient->getLHS(), T);
  const SCEV *All = SE.getAddExpr(Counted, SE.getConstant(T, Step));
  SCEVExpander Expander(SE, "curtail", /*PreserveLCSSA=*/false);
  Value *Times = Expander.expandCodeFor(All, T, B.GetInsertPoint());
  return B.CreateMul(isa<Constant>(Times) ? Times : B.CreateFreeze(Times),
                     B.getInt64(divideCeil(Work->getZExtValue(), Step)));
}

void Emitter::prepareChunks() {
  Ready.resize(P.Chunks.size());
  for (unsigned At = 0; At < P.Chunks.size(); At++) // inner loops first
    prepare(At);
}

// The end of the block before the outermost loop around `L` that all of these values are the same in.
Instruction *Emitter::outermost(ArrayRef<const SCEV *> Values, const Loop *L) {
  SCEVExpander Expander(SE, "curtail", /*PreserveLCSSA=*/false);
  Instruction *Place = L->getLoopPreheader()->getTerminator();
  while ((L = L->getParentLoop())) {
    BasicBlock *Before = L->getLoopPreheader();
    if (!Before || !all_of(Values, [&](const SCEV *S) {
          return SE.isLoopInvariant(S, L) && Expander.isSafeToExpandAt(S, Before->getTerminator());
        }))
      break;
    Place = Before->getTerminator();
  }
  return Place;
}

// A value that another loop has left behind: that one may have a copy by the time it is used.
Value *Emitter::keptFor(Value *V, Instruction *Here) const {
  auto *I = dyn_cast<Instruction>(V);
  bool Left =
      I && any_of(P.Chunks, [&](const Chunk &C) { return C.Copied && C.L->contains(I) && !C.L->contains(Here); });
  return Left ? IRBuilder<>(Here).CreateFreeze(V) : V;
}

void Emitter::prepare(unsigned At) {
  const Chunk &C = P.Chunks[At];
  Prepared &R = Ready[At];
  R.Latch = cast<BranchInst>(C.Latch->getTerminator());
  if (C.Gate)
    return;
  SCEVExpander Expander(SE, "curtail", /*PreserveLCSSA=*/false);
  Instruction *Here = C.Preheader->getTerminator();
  if (!C.Whole)
    Here = outermost({C.Start, C.Taken}, C.L);
  auto Expanded = [&](const SCEV *S) {
    return keptFor(Expander.expandCodeFor(S, C.Counter->getType(), Here->getIterator()), Here);
  };
  R.Start = Expanded(C.Start);
  // What the loop around it wants to know is computed before that one.
  const Chunk *Outer = &C;
  while (Outer->Parent >= 0)
    Outer = &P.Chunks[Outer->Parent];
  Instruction *There = Outer->Preheader->getTerminator();
  if (C.Parent < 0 && none_of(P.Chunks, [&](const Chunk &I) { return I.Parent == int(At); }))
    There = outermost({C.Taken}, C.L);
  Value *Taken = Expander.expandCodeFor(C.Taken, C.Taken->getType(), There->getIterator());
  Builder B(There, There);
  // Where the loop is never reached, its count may be poison, and is of no effect.
  R.Taken = B.CreateZExt(isa<Constant>(Taken) ? Taken : B.CreateFreeze(Taken), B.getInt64Ty());
  if (!C.Whole) {
    Value *Times = B.CreateBinaryIntrinsic(Intrinsic::umin, R.Taken, B.getInt64(C.First - 1));
    R.Rest = B.CreateSub(R.Taken, Times);
    Builder AtStart(Here, Here);
    R.Last = advance(AtStart, R.Start, Times, C);
    return;
  }
  if (!C.Copied)
    R.Last = Expanded(C.Last);
  R.Work = B.getInt64(inUnits(C.Mean));
  for (auto [I, Inner] : enumerate(P.Chunks)) {
    if (Inner.Parent != int(At))
      continue;
    Value *Its = B.CreateSelect(Ready[I].Long, B.getInt64(0), Ready[I].Total);
    R.Work = B.CreateAdd(R.Work, Its);
  }
  R.Total = totalOf(B, C, R);
  // No program means so many iterations. Their work may not be a number of 64 bits; it fits into no budget.
  if (isa<Constant>(R.Taken) && SE.getUnsignedRangeMax(C.Taken).ugt(MostTaken))
    R.Total = B.CreateSelect(B.CreateICmpUGT(R.Taken, B.getInt64(MostTaken)), B.getInt64(uint64_t(1) << 62), R.Total);
  if (C.Parent >= 0 || C.Unchecked)
    R.Long = B.CreateICmpUGT(R.Total, B.getInt64(absorbed(Opts)));
}

static Value *plus(IRBuilder<> &B, Value *Counter, const APInt &Distance) {
  Value *By = B.getInt(Distance);
  return Counter->getType()->isPointerTy() ? B.CreateGEP(B.getInt8Ty(), Counter, By) : B.CreateAdd(Counter, By);
}

// A value that code generation takes for any: it computes nothing from it in advance.
static Value *opaque(IRBuilder<> &B, Value *V) { return assembly(B, V->getType(), "", "=r,0", {V}); }

// The counter after so many steps.
Value *Emitter::advance(IRBuilder<> &B, Value *Counter, Value *Times, const Chunk &C) {
  const APInt &Step = cast<SCEVConstant>(C.Step)->getAPInt();
  Type *T = Counter->getType();
  Type *Offset = T->isPointerTy() ? B.getIntNTy(Step.getBitWidth()) : T;
  Value *Distance = B.CreateMul(B.CreateZExtOrTrunc(Times, Offset), ConstantInt::get(Offset, Step));
  return T->isPointerTy() ? B.CreateGEP(B.getInt8Ty(), Counter, Distance) : B.CreateAdd(Counter, Distance);
}

// The preheader: whole loops are charged, stepped ones get their first step.
void Emitter::enterLoop(Cut &X) {
  // A long loop can pay for the jump.
  MDNode *Rare = MDBuilder(F.getContext()).createBranchWeights(1, 1 << 20);
  MDNode *Seldom = MDBuilder(F.getContext()).createBranchWeights(1, 1 << 6);
  Builder B(X.Entry, X.Entry);
  auto Begin = [&](BasicBlock *From, Value *End, Value *Rest) {
    if (X.C.Copied)
      return;
    X.End->addIncoming(End, From);
    X.Rest->addIncoming(Rest, From);
  };
  if (!X.C.Whole) {
    Begin(X.Entry->getParent(), X.R.Last, X.R.Rest);
    B.CreateBr(X.Run);
    X.Entry->eraseFromParent();
    return;
  }
  int Nest = X.C.Nest;
  Value *Total = B.CreateAdd(X.R.Total, B.getInt64(uint64_t(X.C.Before + 0.5)));
  if (X.C.Unchecked)
    charge(B, Total, Nest);
  if (X.R.Long) {
    auto *Checking = BasicBlock::Create(F.getContext(), "curtail.long", &F, X.Run);
    Begin(X.Entry->getParent(), X.R.Last, B.getInt64(0));
    B.CreateCondBr(X.R.Long, Checking, X.Fits, Seldom);
    X.Entry->eraseFromParent();
    B.SetInsertPoint(Checking);
    X.Entry = B.CreateBr(X.Fits);
    B.SetInsertPoint(X.Entry);
  }
  // A loop that does not fit is not charged yet, what came before it is. Unsigned: between
  // safepoints the budget is not negative, and a total of 2^63 or more does not fit either.
  Value *Left;
  Value *Short;
  if (X.C.Unchecked) {
    Left = loadBudget(B, Nest);
    Short = B.CreateICmpSLT(Left, B.getInt64(0));
  } else {
    Value *Had = loadBudget(B, Nest);
    Left = B.CreateSub(Had, Total);
    storeBudget(B, Left, Nest);
    Short = B.CreateICmpULT(Had, Total);
  }
  auto *Undo = BasicBlock::Create(F.getContext(), "curtail.cut", &F, X.Next);
  Begin(X.Entry->getParent(), X.R.Last, B.getInt64(0));
  B.CreateCondBr(Short, Undo, X.Fits, Rare);
  X.Entry->eraseFromParent();
  B.SetInsertPoint(Undo);
  storeBudget(B, B.CreateAdd(loadBudget(B, Nest), X.R.Total), Nest);
  B.CreateBr(X.Next);
  X.Left->addIncoming(X.R.Taken, Undo);
  if (X.Counter)
    X.Counter->addIncoming(X.R.Start, Undo);
}

// Between two chunks: the slow path if it is due, and how far the next one goes.
void Emitter::nextChunk(Cut &X) {
  Instruction *End = new UnreachableInst(F.getContext(), X.Next);
  Builder B(End, X.Latch);
  Value *Due;
  if (Opts.Safepoints == Kind::Flag)
    Due = polled(B);
  else if (X.C.Whole)
    Due = B.CreateICmpSLT(loadBudget(B, X.C.Nest), X.R.Work); // not even one iteration
  else
    Due = B.CreateICmpSLT(charge(B, B.getInt64(inUnits(X.C.Stride * X.C.Mean)), X.C.Nest), B.getInt64(0));
  slowIf(Due, End, X.C.Nest);
  B.SetInsertPoint(End);
  Value *Most = B.getInt64(X.C.Stride - 1);
  if (X.C.Whole) {
    // Not negative: it is enough for an iteration, or has been granted.
    Value *Work = X.Frugal ? opaque(B, X.R.Work) : X.R.Work;
    Value *Fit = B.CreateUDiv(loadBudget(B, X.C.Nest), Work);
    Most = B.CreateBinaryIntrinsic(Intrinsic::usub_sat, Fit, B.getInt64(1));
  }
  Value *Times = B.CreateBinaryIntrinsic(Intrinsic::umin, X.Left, Most);
  if (X.C.Whole) {
    // One iteration there is in any case, and it may be more than is left.
    Value *Had = loadBudget(B, X.C.Nest);
    Value *Work = B.CreateAdd(B.CreateMul(Times, X.R.Work), X.R.Work);
    storeBudget(B, B.CreateBinaryIntrinsic(Intrinsic::usub_sat, Had, Work), X.C.Nest);
  }
  X.NextEnd = End->getParent();
  Value *Counter = X.Counter ? X.Counter : plus(B, X.Index, X.C.Ahead);
  X.End->addIncoming(advance(B, Counter, Times, X.C), X.NextEnd);
  X.Rest->addIncoming(B.CreateSub(X.Left, Times), X.NextEnd);
  B.CreateBr(X.Run);
  End->eraseFromParent();
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
  emitPoint({Rarely, C.Stride * C.Mean, C.Nest});
  noteGate(Before->getTerminator(), C.Stride, C.Iteration, P.depthOf(*C.L));
}

// A block in front of the loop as it was.
BasicBlock *Emitter::entryOf(const Chunk &C, BasicBlock *Before) {
  auto *Fits = BasicBlock::Create(F.getContext(), "curtail.fits", &F, C.Header);
  Instruction *End = BranchInst::Create(C.Header, Fits);
  End->setDebugLoc(Before->getTerminator()->getDebugLoc());
  C.Header->replacePhiUsesWith(Before, Fits);
  noteChunk(End, 0, C.Iteration, P.depthOf(*C.L) - 1);
  return Fits;
}

void Emitter::cutLoop(unsigned At) {
  const Chunk &C = P.Chunks[At];
  if (C.Gate)
    return gateLoop(C, Ready[At]);
  const Prepared &R = Ready[At];
  BasicBlock *Before = blockBefore(C.Header, R.Latch->getParent());
  ValueToValueMapTy Copies;
  if (C.Copied)
    copyLoop(*C.L, Copies);
  auto Cutting = [&](auto *V) {
    Value *Copy = Copies.lookup(V);
    return Copy ? cast<std::remove_pointer_t<decltype(V)>>(Copy) : V;
  };
  BranchInst *LatchEnd = Cutting(R.Latch);
  BasicBlock *Latch = LatchEnd->getParent(), *Header = Cutting(C.Header);
  bool OnTrue = LatchEnd->getSuccessor(0) == Header;
  BasicBlock *Exit = LatchEnd->getSuccessor(OnTrue);
  auto *Entry = cast<BranchInst>(Before->getTerminator());
  Cut X{C, R, Entry, LatchEnd, Header, Exit, Cutting(C.Counter)};
  bool Register = C.Counter->getType()->isPointerTy() ||
                  F.getDataLayout().isLegalInteger(C.Counter->getType()->getIntegerBitWidth());
  X.Frugal = C.Copied && C.Index && C.L->isOutermost() && Register;
  LLVMContext &Context = F.getContext();
  Type *Count = Type::getInt64Ty(Context), *Counter = C.Counter->getType();
  X.Next = BasicBlock::Create(Context, "curtail.next", &F, Header);
  X.Run = BasicBlock::Create(Context, "curtail.run", &F, Header);
  X.Through = BasicBlock::Create(Context, "curtail.through", &F, X.Exit);
  X.More = BasicBlock::Create(Context, "curtail.more", &F, X.Next);
  X.Fits = C.Copied ? entryOf(C, Before) : X.Run;
  PHINode *Index = X.Frugal ? Cutting(C.Index) : nullptr;
  // The phis of the header, handed on through Chunk and Run.
  SmallVector<std::pair<PHINode *, PHINode *>, 8> Carried;
  for (PHINode &Phi : Header->phis()) {
    auto *InRun = PHINode::Create(Phi.getType(), 3, "", X.Run);
    Carried.push_back({InRun, PHINode::Create(Phi.getType(), 2, "", X.Next)});
    if (Index == &Phi)
      X.Index = Carried.back().second;
  }
  X.Left = PHINode::Create(Count, 2, "", X.Next);
  if (!Index)
    X.Counter = PHINode::Create(Counter, 2, "", X.Next);
  X.End = PHINode::Create(Counter, 3, "", X.Run);
  X.Rest = PHINode::Create(Count, 3, "", X.Run);
  BranchInst::Create(Header, X.Run)->setDebugLoc(X.Latch->getDebugLoc());
  enterLoop(X);
  nextChunk(X);

  // The latch.
  Builder B(X.Latch, X.Latch);
  Value *Old = X.Latch->getCondition();
  Value *Test = X.Test;
  if (X.Frugal) {
    Value *Following = Index->getIncomingValueForBlock(Latch), *Any = opaque(B, Following);
    Index->setIncomingValueForBlock(Latch, Any);
    Test = Test == Following ? Any : Test;
  }
  X.Latch->setCondition(OnTrue ? B.CreateICmpNE(Test, X.End) : B.CreateICmpEQ(Test, X.End));
  X.Latch->setSuccessor(OnTrue, X.Through);
  RecursivelyDeleteTriviallyDeadInstructions(Old);
  // Mostly that was all.
  MDNode *Mostly = MDBuilder(Context).createBranchWeights(1 << 20, 1);
  B.SetInsertPoint(X.Through);
  B.CreateCondBr(B.CreateICmpEQ(X.Rest, B.getInt64(0)), X.Exit, X.More, Mostly);
  B.SetInsertPoint(X.More);
  X.Left->addIncoming(B.CreateSub(X.Rest, B.getInt64(1)), X.More);
  if (X.Counter)
    X.Counter->addIncoming(advance(B, X.Test, B.getInt64(1), C), X.More);
  B.CreateBr(X.Next);
  X.Exit->replacePhiUsesWith(Latch, X.Through);

  for (auto [Phi, Pair] : zip(Header->phis(), Carried)) {
    auto [InRun, InChunk] = Pair;
    Value *Start = Phi.getIncomingValueForBlock(Before), *Next = Phi.getIncomingValueForBlock(Latch);
    for (BasicBlock *From : predecessors(X.Next))
      InChunk->addIncoming(From == X.More ? Next : Start, From);
    for (BasicBlock *From : predecessors(X.Run))
      InRun->addIncoming(From == X.NextEnd ? InChunk : Start, From);
    Phi.setIncomingValue(Phi.getBasicBlockIndex(Before), InRun);
  }
  Header->replacePhiUsesWith(Before, X.Run);
  noteChunk(X.Run->getTerminator(), C.Whole ? 0 : C.Stride, C.Iteration, P.depthOf(*C.L));
}

} // namespace curtail
