// Counted loops that are cut into chunks, and loops that are gated.
//
// Where ScalarEvolution knows how often a small loop runs, its body needs no safepoint: one subtraction on entry,
// of iterations × work, charges it whole. If that fits into the budget, which it mostly does, the loop runs to its
// end as it was. If not, a copy of it is cut where the budget ends: the latch compares the counter with the end of a
// chunk instead of the end of the loop, and what lies between chunks is a loop around it (strip-mining, after
// vectorisation).
//
// Small loops that may leave early are not cut but gated, counted or not, as long as they count: on
// their back edge the lower bits of the counter are tested, and once in so many iterations (`Stride`,
// a power of two) they are 0, and the safepoint is behind that. Nothing is computed on entry, and no
// register is taken: comparisons of strings, searches and the like mostly end soon, and run often.
#include "choose/longcalls.h"
#include "choose/loops.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Transforms/Utils/LoopUtils.h"
#include "llvm/Transforms/Utils/ScalarEvolutionExpander.h"

using namespace llvm;

namespace curtail {

// What the computation of an iteration count may cost, in LLVM's units of expansion cost.
static const unsigned ExpansionBudget = 6;

// A larger loop's work hides a safepoint; and in a very large loop around it, an interpreter's say, a copy makes the
// registers of all of it worse.
static const unsigned MostCopied = 96, MostAround = 4096;

Loops::Loops(const Facts &F) : F(F), A(F.A), Bound(F.Bound) {
  findShort();
  if (F.Opts.Safepoints == Kind::Reads || F.F.callsFunctionThatReturnsTwice())
    return;
  for (Loop *L : A.LI.getLoopsInPreorder())
    if (L->isInnermost() && !shortOf(L) && !isCovered(F, Asked, *L) && !tryChunk(*L))
      tryGate(*L);
}

const Chunk *Loops::chunkOf(const Loop *L) const {
  auto It = ChunkIndex.find(L);
  return It == ChunkIndex.end() ? nullptr : &Chunks[It->second];
}

const Chunk *Loops::headOfChunk(const BasicBlock *BB) const {
  Loop *L = A.LI.getLoopFor(BB);
  return L && L->getHeader() == BB ? chunkOf(L) : nullptr;
}

// The shape: one way in and one way back, both by branches.
bool Loops::shapeOf(Loop &L, Chunk &C) const {
  C.L = &L;
  C.Header = L.getHeader();
  C.Latch = L.getLoopLatch();
  C.Preheader = L.getLoopPreheader();
  return C.Latch && C.Preheader && !C.Header->isEHPad() && !F.Cold.contains(C.Header) &&
         isa<BranchInst>(C.Preheader->getTerminator()) && isa<BranchInst>(C.Latch->getTerminator()) &&
         F.legal(*C.Latch->getTerminator());
}

// The recurrence that the latch tests.
bool Loops::describe(Loop &L, Chunk &C) const {
  auto *Branch = cast<BranchInst>(C.Latch->getTerminator());
  auto *Test = Branch->isConditional() ? dyn_cast<ICmpInst>(Branch->getCondition()) : nullptr;
  if (!Test || L.contains(Branch->getSuccessor(0)) == L.contains(Branch->getSuccessor(1)))
    return false;
  for (unsigned Side = 0; Side < 2; Side++) {
    auto *Value = dyn_cast<Instruction>(Test->getOperand(Side));
    if (!Value || !L.contains(Value) || !A.SE.isSCEVable(Value->getType()) ||
        !A.SE.isLoopInvariant(A.SE.getSCEV(Test->getOperand(1 - Side)), &L))
      continue;
    auto *R = dyn_cast<SCEVAddRecExpr>(A.SE.getSCEV(Value));
    if (!R || R->getLoop() != &L || !R->isAffine() || A.SE.getTypeSizeInBits(R->getType()) > 64)
      continue;
    C.Counter = Value;
    C.Step = R->getStepRecurrence(A.SE);
    C.Start = R->getStart();
  }
  C.Taken = A.SE.getExitCount(&L, C.Latch);
  if (!C.Counter || !isa<SCEVConstant>(C.Step) || isa<SCEVCouldNotCompute>(C.Taken) ||
      A.SE.getTypeSizeInBits(C.Taken->getType()) > 64)
    return false;
  SCEVExpander Expander(A.SE, "curtail", false);
  const Instruction *At = C.Preheader->getTerminator();
  return Expander.isSafeToExpandAt(C.Start, At) && Expander.isSafeToExpandAt(C.Taken, At) &&
         !Expander.isHighCostExpansion({C.Taken}, &L, ExpansionBudget, &A.TTI, At);
}

static bool exitsEarly(const Facts &F, const Loop &L) {
  for (BasicBlock *BB : L.blocks())
    for (BasicBlock *Next : successors(BB))
      if (BB != L.getLoopLatch() && !L.contains(Next) && !F.Cold.contains(Next) && !Next->isEHPad())
        return true;
  return false;
}

bool Loops::mayCopy(const Loop &L) const {
  return F.sizeOf(L) <= MostCopied && F.sizeOf(*L.getOutermostLoop()) <= MostAround &&
         none_of(L.blocks(), [&](BasicBlock *BB) {
           return BB->hasAddressTaken() || any_of(*BB, [&](Instruction &I) {
                    auto *Call = dyn_cast<CallBase>(&I);
                    return I.getType()->isTokenTy() || (Call && (Call->cannotDuplicate() || Call->isConvergent())) ||
                           longCallAt(F, I);
                  });
         });
}

bool Loops::tryChunk(Loop &L) {
  Chunk C;
  if (F.Opts.Safepoints != Kind::Clock || !shapeOf(L, C) || !describe(L, C) ||
      !F.legal(*C.Preheader->getTerminator()) || exitsEarly(F, L) || !mayCopy(L))
    return false;
  bool Possible = true;
  C.Iteration = std::max(longestIteration(L, Possible), 1u);
  if (!Possible || C.Iteration > Bound / 2)
    return false;
  ChunkIndex[&L] = Chunks.size();
  Chunks.push_back(C);
  return true;
}

// Gates are at the value that the counter has in the next iteration: where it starts from 0, which it
// mostly does, short runs never come to one. A counter that moves by any constant takes each value of
// so many bits above the step's lowest once in a period, wherever it starts.
bool Loops::chooseGate(Loop &L, Chunk &C) const {
  for (PHINode &Phi : C.Header->phis()) {
    auto *Next = dyn_cast<Instruction>(Phi.getIncomingValueForBlock(C.Latch));
    if (!Next || !L.contains(Next) || !A.SE.isSCEVable(Phi.getType()))
      continue;
    auto *R = dyn_cast<SCEVAddRecExpr>(A.SE.getSCEV(Next));
    if (!R || R->getLoop() != &L || !R->isAffine())
      continue;
    auto *Step = dyn_cast<SCEVConstant>(R->getStepRecurrence(A.SE));
    if (!Step || Step->isZero())
      continue;
    // The mask is to be part of the instruction.
    unsigned Bits = Step->getAPInt().countr_zero() + Log2_32(C.Stride);
    if (Bits > 31 || Bits > A.SE.getTypeSizeInBits(R->getType()))
      continue;
    C.Gate = Next;
    C.Step = Step;
    return true;
  }
  return false;
}

bool Loops::tryGate(Loop &L) {
  Chunk C;
  if (!shapeOf(L, C))
    return false;
  bool Possible = true;
  C.Iteration = std::max(longestIteration(L, Possible), 1u);
  // What is larger, and not by unrolling, has branches of its own, which make the gate's hard to
  // predict, or work that hides a safepoint.
  bool Unrolled = hasUnrollTransformation(&L) & TM_Disable;
  if (!Possible || (C.Iteration > MostTight && !Unrolled))
    return false;
  // What a function that the module does not see into runs before its first safepoint is less.
  unsigned Most = (L.getParentLoop() ? Bound / 2 : F.Quarter * 3 / 4) / C.Iteration;
  if (Most < LeastPeriod)
    return false;
  C.Stride = bit_floor(Most);
  if (!chooseGate(L, C))
    return false;
  ChunkIndex[&L] = Chunks.size();
  Chunks.push_back(C);
  return true;
}

} // namespace curtail
