// Counted loops that are cut into chunks, and loops that are gated.
//
// Where ScalarEvolution knows how often a loop runs, its body needs no safepoint: the latch compares
// the counter with the end of a chunk instead of the end of the loop, and what lies between chunks
// is a loop around it (strip-mining, after vectorisation). Two ways to charge:
//
//   whole    one subtraction on entry, of iterations × work. If that fits into the budget, which it
//            mostly does, the loop runs to its end. If not, it is cut where the budget ends.
//   stepped  for loops that may leave early, and for those whose body charges for itself: a fixed
//            number of iterations a chunk, charged when the chunk is through. The first chunk is half
//            as long as the others and is charged as one of them: that makes up for the last, which is
//            not charged.
//
// Small loops that may leave early are not cut but gated, counted or not, as long as they count: on
// their back edge the lower bits of the counter are tested, and once in so many iterations (`Stride`,
// a power of two) they are 0, and the safepoint is behind that. Nothing is computed on entry, and no
// register is taken: comparisons of strings, searches and the like mostly end soon, and run often.
//
// A whole loop whose iterations are the same in each iteration of a whole loop around it leaves the
// charge to that one (`Parent`), as long as it is short, which is found out at run time, outside of
// both: so short rows of a matrix cost nothing each.
#include "choose/loops.h"
#include "facts/cost.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Transforms/Utils/LoopUtils.h"
#include "llvm/Transforms/Utils/ScalarEvolutionExpander.h"

using namespace llvm;

namespace curtail {

// What the computation of an iteration count may cost, in LLVM's units of expansion cost.
static const unsigned ExpansionBudget = 6;
// A step of fewer iterations saves nothing over a safepoint in each.
static const unsigned LeastStride = 4;

Loops::Loops(const Facts &F) : F(F), A(F.A), Opts(F.Opts), Bound(F.Bound), Quarter(F.Quarter) {
  findShort();
  findChunks();
}

int Loops::indexOf(const Loop *L) const {
  auto It = ChunkIndex.find(L);
  return It == ChunkIndex.end() ? -1 : int(It->second);
}

const Chunk *Loops::chunkOf(const Loop *L) const {
  int At = indexOf(L);
  return At < 0 ? nullptr : &Chunks[At];
}

const Chunk *Loops::headOfChunk(const BasicBlock *BB) const {
  Loop *L = A.LI.getLoopFor(BB);
  return L && L->getHeader() == BB ? chunkOf(L) : nullptr;
}

// How often a loop's counter, or its next value, serves for more than counting.
static unsigned usesOf(const PHINode &Phi, const Instruction *Next, const Value *Test) {
  auto Other = [&](const User *U) { return U != Next && U != &Phi && U != Test; };
  return unsigned(count_if(Phi.users(), Other) + count_if(Next->users(), Other));
}

// Counts by what the body needs anyway, where the latch's own counter is good for nothing else: then
// that one goes. (Code generation would see to it, if it could see through the end of a chunk.)
void Loops::chooseCounter(Loop &L, const Value *Test, Chunk &C) const {
  unsigned Best = 0;
  for (PHINode &Phi : L.getHeader()->phis()) {
    auto *Next = dyn_cast<Instruction>(Phi.getIncomingValueForBlock(C.Latch));
    if (!Next || !L.contains(Next) || !A.SE.isSCEVable(Phi.getType()) || isa<PHINode>(Next))
      continue;
    auto *R = dyn_cast<SCEVAddRecExpr>(A.SE.getSCEV(Next));
    unsigned Uses = usesOf(Phi, Next, Test);
    bool Own = C.Counter == Next || C.Counter == &Phi;
    if (Own && Uses > 0)
      return;
    // 64 bits do not come round again.
    if (Own || Uses <= Best || !R || R->getLoop() != &L || !R->isAffine() ||
        !isa<SCEVConstant>(R->getStepRecurrence(A.SE)) || A.SE.getTypeSizeInBits(R->getType()) != 64)
      continue;
    Best = Uses;
    C.Counter = Next;
    C.Start = R->getStart();
    C.Step = R->getStepRecurrence(A.SE);
    C.Last = R->evaluateAtIteration(C.Taken, A.SE);
  }
}

// The shape: one way in and one way back, both by branches.
bool Loops::shapeOf(Loop &L, Chunk &C) const {
  C.L = &L;
  C.Header = L.getHeader();
  C.Latch = L.getLoopLatch();
  C.Preheader = L.getLoopPreheader();
  return C.Latch && C.Preheader && !C.Header->isEHPad() && !F.Cold.contains(C.Header) &&
         isa<BranchInst>(C.Preheader->getTerminator()) && isa<BranchInst>(C.Latch->getTerminator());
}

// The recurrence that the latch tests.
bool Loops::describe(Loop &L, Chunk &C) const {
  if (!shapeOf(L, C))
    return false;
  auto *Branch = cast<BranchInst>(C.Latch->getTerminator());
  auto *Test = Branch->isConditional() ? dyn_cast<ICmpInst>(Branch->getCondition()) : nullptr;
  if (!Test || L.contains(Branch->getSuccessor(0)) == L.contains(Branch->getSuccessor(1)))
    return false;
  const SCEVAddRecExpr *Recurrence = nullptr;
  const SCEV *End = nullptr;
  for (unsigned Side = 0; Side < 2 && !Recurrence; Side++) {
    auto *Value = dyn_cast<Instruction>(Test->getOperand(Side));
    if (!Value || !L.contains(Value) || !A.SE.isSCEVable(Value->getType()))
      continue;
    auto *R = dyn_cast<SCEVAddRecExpr>(A.SE.getSCEV(Value));
    End = A.SE.getSCEV(Test->getOperand(1 - Side));
    if (!R || R->getLoop() != &L || !R->isAffine() || !A.SE.isLoopInvariant(End, &L))
      continue;
    Recurrence = R;
    C.Counter = Value;
  }
  if (!Recurrence || A.SE.getTypeSizeInBits(Recurrence->getType()) > 64)
    return false;
  C.Step = Recurrence->getStepRecurrence(A.SE);
  C.Start = Recurrence->getStart();
  C.Taken = A.SE.getExitCount(&L, C.Latch);
  if (!isa<SCEVConstant>(C.Step) || isa<SCEVCouldNotCompute>(C.Taken) ||
      A.SE.getTypeSizeInBits(C.Taken->getType()) > 64)
    return false;
  // The common case costs nothing: the loop ends where its counter reaches a value.
  bool ExitOnTrue = !L.contains(Branch->getSuccessor(0));
  bool UntilEqual = Test->getPredicate() == (ExitOnTrue ? CmpInst::ICMP_EQ : CmpInst::ICMP_NE);
  C.Last = UntilEqual ? End : Recurrence->evaluateAtIteration(C.Taken, A.SE);
  chooseCounter(L, Test, C);
  SCEVExpander Expander(A.SE, "curtail", false);
  const Instruction *At = C.Preheader->getTerminator();
  return all_of(ArrayRef({C.Start, C.Last, C.Taken}),
                [&](const SCEV *S) { return Expander.isSafeToExpandAt(S, At); }) &&
         !Expander.isHighCostExpansion({C.Taken}, &L, ExpansionBudget, &A.TTI, At);
}

// A phi that moves with the counter tells at the header what that will be at the latch.
void Loops::findIndex(Chunk &C) const {
  for (PHINode &Phi : C.Header->phis()) {
    if (Phi.getType() != C.Counter->getType())
      continue;
    auto *R = dyn_cast<SCEVAddRecExpr>(A.SE.getSCEV(&Phi));
    if (!R || R->getLoop() != C.L || !R->isAffine() || R->getStepRecurrence(A.SE) != C.Step)
      continue;
    auto *Ahead = dyn_cast<SCEVConstant>(A.SE.getMinusSCEV(C.Start, R->getStart()));
    if (!Ahead)
      continue;
    C.Index = &Phi;
    C.Ahead = Ahead->getAPInt();
    return;
  }
}

bool Loops::exitsEarly(const Loop &L) const {
  for (BasicBlock *BB : L.blocks())
    for (BasicBlock *Next : successors(BB))
      if (BB != L.getLoopLatch() && !L.contains(Next) && !F.Cold.contains(Next) && !Next->isEHPad())
        return true;
  return false;
}

// Whether most iterations of `Around` come to the loop: only then that one can charge for it.
bool Loops::mostlyRuns(const Chunk &C, const Loop &Around) const {
  return F.frequencyOf(*C.Preheader) > F.frequencyOf(*Around.getHeader()) / 5 * 2;
}

// The longest path through an iteration, loops that charge for themselves left out. `Pure`: nothing
// inside does.
unsigned Loops::longestBody(Loop &L, bool &Pure) const {
  DenseMap<const BasicBlock *, unsigned> Distance;
  unsigned Longest = 0;
  for (BasicBlock *BB : F.Order) {
    if (!L.contains(BB) || F.Cold.contains(BB))
      continue;
    unsigned D = 0;
    for (BasicBlock *Before : F.beforeIn(L, *BB))
      D = std::max(D, Distance.lookup(Before));
    Loop *Inner = A.LI.getLoopFor(BB);
    if (Inner != &L && Inner->getHeader() == BB) {
      const ShortLoop *Counted = shortOf(Inner);
      const Chunk *C = headOfChunk(BB);
      if (Counted)
        D += (Counted->Trips - 1) * Counted->Iteration;
      else if (C && !C->Whole)
        D += C->First * C->Iteration;
      Pure &= Counted || (C && C->Whole && mostlyRuns(*C, L) && invariantIn(indexOf(Inner), L));
    }
    for (Instruction &I : *BB) {
      if (isRealCall(I)) {
        Effect E = F.effectOf(cast<CallBase>(I));
        Pure &= !E.MayYield && E.Through;
        D += E.ThroughMax;
      } else {
        D += F.costOf(I);
      }
    }
    Distance[BB] = D;
    Longest = std::max(Longest, D);
  }
  return Longest;
}

// Whether the iterations of a chunked loop, and of what it has adopted, are the same in every
// iteration of `Around`, and known before it.
bool Loops::invariantIn(int At, const Loop &Around) const {
  const BasicBlock *Before = Around.getLoopPreheader();
  SCEVExpander Expander(A.SE, "curtail", false);
  const Chunk &C = Chunks[At];
  if (!Before || !A.SE.isLoopInvariant(C.Taken, &Around) ||
      !Expander.isSafeToExpandAt(C.Taken, Before->getTerminator()))
    return false;
  for (auto [I, Inner] : enumerate(Chunks))
    if (Inner.Parent == At && !invariantIn(int(I), Around))
      return false;
  return true;
}

bool Loops::tryChunk(Loop &L, bool OnlyWhole) {
  Chunk C;
  if (!describe(L, C) || !F.legal(*C.Preheader->getTerminator()) || !F.legal(*C.Latch->getTerminator()))
    return false;
  findIndex(C);
  bool Pure = true;
  C.Iteration = std::max(longestBody(L, Pure), 1u);
  C.Whole = Opts.Safepoints == Kind::Clock && Pure && !exitsEarly(L);
  C.First = Quarter * 3 / 4 / C.Iteration;
  C.Stride = Bound / 2 / C.Iteration;
  if (C.Iteration > Bound / 2 || (!C.Whole && C.First < LeastStride) || (OnlyWhole && !C.Whole))
    return false;
  int At = Chunks.size();
  ChunkIndex[&L] = At;
  Chunks.push_back(C);
  for (Loop *Inner : L)
    if (int I = indexOf(Inner); C.Whole && I >= 0)
      Chunks[I].Parent = At;
  return true;
}

// Gates are at the value that the counter has in the next iteration: where it starts from 0, which it
// mostly does, short runs never come to one. A counter that moves by any constant takes each value of
// so many bits above the step's lowest once in a period, wherever it starts.
bool Loops::chooseGate(Loop &L, Chunk &C) const {
  unsigned Best = 0;
  for (PHINode &Phi : C.Header->phis()) {
    auto *Next = dyn_cast<Instruction>(Phi.getIncomingValueForBlock(C.Latch));
    if (!Next || !L.contains(Next) || !A.SE.isSCEVable(Phi.getType()))
      continue;
    auto *R = dyn_cast<SCEVAddRecExpr>(A.SE.getSCEV(Next));
    if (!R || R->getLoop() != &L || !R->isAffine())
      continue;
    auto *Step = dyn_cast<SCEVConstant>(R->getStepRecurrence(A.SE));
    unsigned Uses = 1 + usesOf(Phi, Next, nullptr);
    if (!Step || Step->isZero() || Uses <= Best)
      continue;
    // The mask is to be part of the instruction.
    unsigned Bits = Step->getAPInt().countr_zero() + Log2_32(C.Stride);
    if (Bits > 31 || Bits > A.SE.getTypeSizeInBits(R->getType()))
      continue;
    Best = Uses;
    C.Gate = Next;
    C.Step = Step;
  }
  return Best > 0;
}

bool Loops::tryGate(Loop &L) {
  Chunk C;
  if (!L.isInnermost() || !shapeOf(L, C) || !F.legal(*C.Latch->getTerminator()))
    return false;
  bool Possible = true;
  C.Iteration = std::max(longestIteration(L, Possible), 1u);
  // What is larger, and not by unrolling, has branches of its own, which make the gate's hard to
  // predict, or work that hides a safepoint.
  bool Unrolled = hasUnrollTransformation(&L) & TM_Disable;
  if (!Possible || (C.Iteration > MostTight && !Unrolled))
    return false;
  // What a function that the module does not see into runs before its first safepoint is less.
  unsigned Most = (L.getParentLoop() ? Bound / 2 : Quarter * 3 / 4) / C.Iteration;
  if (Most < LeastPeriod)
    return false;
  C.First = C.Stride = bit_floor(Most);
  if (!chooseGate(L, C))
    return false;
  ChunkIndex[&L] = Chunks.size();
  Chunks.push_back(C);
  return true;
}

void Loops::findChunks() {
  if (Opts.Safepoints == Kind::Reads || F.F.callsFunctionThatReturnsTwice())
    return;
  SmallVector<Loop *, 4> All = A.LI.getLoopsInPreorder();
  for (Loop *L : reverse(All)) // innermost first
    if (!shortOf(L) && !isCovered(F, Asked, *L) && !tryChunk(*L, /*OnlyWhole=*/true) &&
        !(exitsEarly(*L) && tryGate(*L)) && !tryChunk(*L, /*OnlyWhole=*/false))
      tryGate(*L);
}

} // namespace curtail
