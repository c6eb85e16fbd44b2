#include "choose/walk.h"
#include "facts/coldcalls.h"
#include "facts/cost.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Instructions.h"

using namespace llvm;

namespace curtail {

// Where ways back are counted, each level of a nest needs a walk more until lengths hold, and the mean comes
// nearer with each.
static const unsigned MostWalks = 32;

// Work of an exception, from where it is thrown to where it is caught, at least: it takes a microsecond or more.
static const unsigned CaughtWork = 2000;

namespace {

struct State {
  unsigned Longest = 0; // with what the callers are assumed to bring
  unsigned Real = 0;    // in this function alone
  double Mean = 0;
  bool Reached = false;
  bool SinceEntry = true; // some path from the entry comes here without a safepoint
  unsigned FromEntry = 0; // the longest of these

  // Work that all of it passes.
  void pass(unsigned Work) {
    Longest += Work;
    Real += Work;
    FromEntry += Work;
  }
  // At least so long ago is the last safepoint.
  void atLeast(unsigned Distance) {
    Longest = std::max(Longest, Distance);
    Real = std::max(Real, Distance);
  }
};

// Of ways that are taken more or less often.
struct Average {
  double Weight = 0, Sum = 0;
  void add(double W, double Value) {
    Weight += W;
    Sum += W * Value;
  }
};

class Walk {
public:
  Walk(const Facts &F, const Loops &L, const Choice &C, bool Placing) : F(F), A(F.A), L(L), C(C), Placing(Placing) {}
  Walked run();

private:
  void once();
  State stateAt(BasicBlock &BB, bool WithBackEdges = false) const;
  void leaveChunk(const BasicBlock *Before, const BasicBlock *BB, State &S) const;
  void block(BasicBlock &BB, State S);
  void beforeLoops(BasicBlock &BB, State &S);
  void call(const CallBase &Call, State &S);
  State unwound(const InvokeInst &Call, State S) const;
  void leave(Instruction &Return, State &S);
  bool tryPlace(Instruction *Before, State &S);
  void place(Instruction *Before, State &S);
  void restart(State &S);
  void closeLoops();
  bool waysBackHold() const;

  const Facts &F;
  const Analyses &A;
  const Loops &L;
  const Choice &C;
  const bool Placing;
  DenseMap<const BasicBlock *, State> Out, Previous; // of this walk, and the one before
  DenseMap<const BasicBlock *, State> Thrown;        // where the invoke at a block's end unwinds
  double ReturnFrequency = 0, ReturnMean = 0;
  Walked W;
};

} // namespace

void Walk::once() {
  Previous = std::move(Out);
  Out.clear();
  Thrown.clear();
  W = Walked();
  W.Chunks.resize(L.Chunks.size());
  W.S.Through = false;
  ReturnFrequency = ReturnMean = 0;
  for (BasicBlock *BB : F.Order)
    block(*BB, stateAt(*BB));
  if (ReturnFrequency > 0)
    W.S.Uncharged = ReturnMean / ReturnFrequency;
}

// What comes in from the predecessors: their longest distance, and their mean weighted by how often
// each edge is taken. On the walk itself a back edge brings nothing but its weight: either it comes
// from a safepoint, or it leads to one, which closeLoops corrects. Where neither holds, it brings what
// the walk before found.
State Walk::stateAt(BasicBlock &BB, bool WithBackEdges) const {
  State S;
  if (&BB == &F.F.getEntryBlock()) {
    S.Reached = true;
    // The part of the convention that lies in the callers.
    if (Placing)
      S.Longest = F.Visible ? F.Bound - F.Quarter : F.Bound / 2;
    return S;
  }
  Average Into, Around;
  S.SinceEntry = false;
  Loop *Of = A.LI.getLoopFor(&BB);
  const Chunk *Head = L.headOfChunk(&BB);
  const ShortLoop *Short = Of && Of->getHeader() == &BB ? L.shortOf(Of) : nullptr;
  bool WithoutBack = Head || (Short && !Short->Calls);
  for (BasicBlock *Before : predecessors(&BB)) {
    bool Back = F.isBack(Before, &BB);
    if (!F.Index.count(Before) || (Back && WithoutBack))
      continue;
    State From;
    auto *Invoke = dyn_cast<InvokeInst>(Before->getTerminator());
    if (Invoke && Invoke->getUnwindDest() == &BB)
      From = Thrown.lookup(Before);
    else if (!Back || WithBackEdges)
      From = Out.lookup(Before);
    else if (C.Open.contains(&BB))
      From = Previous.lookup(Before);
    if (From.Reached)
      leaveChunk(Before, &BB, From);
    double Weight = F.frequencyOf(*Before) * A.BPI.getEdgeProbability(Before, &BB).getNumerator();
    (Back ? Around : Into).add(std::max(Weight, 1.0), From.Mean);
    if (!From.Reached || (Back && Short))
      continue; // a short loop's iterations are counted below
    S.Reached = true;
    S.Longest = std::max(S.Longest, From.Longest);
    S.Real = std::max(S.Real, From.Real);
    if (From.SinceEntry) {
      S.SinceEntry = true;
      S.FromEntry = std::max(S.FromEntry, From.FromEntry);
    }
  }
  // How often a loop goes round is a guess, unless it is known to be less.
  double Part = Short ? std::min(1.0, Into.Weight * (Short->Trips - 1) / Around.Weight) : 1;
  S.Mean = (Into.Sum + Part * Around.Sum) / (Into.Weight + Part * Around.Weight);
  if (Head) {
    // The body's work starts from nothing: leaveChunk adds what was before.
    S.Mean = 0;
    S.pass(Head->Gate ? (Head->Stride - 1) * Head->Iteration : 0);
  } else if (Short) {
    unsigned Rest = (Short->Trips - 1) * Short->Iteration;
    S.atLeast(Short->After);
    S.pass(Rest);
    if (!Short->Calls)
      S.Mean += Short->Exact ? Rest : Rest / 2;
  }
  return S;
}

// An edge out of a chunked loop: its body's work is charged by it, what came before is not. Of a gated one, most runs
// are so short that LLVM's guess of their length would be most of what is charged for the loop around them.
void Walk::leaveChunk(const BasicBlock *Before, const BasicBlock *BB, State &S) const {
  const Loop *Of = A.LI.getLoopFor(Before);
  const Chunk *Left = Of && !Of->contains(BB) ? L.chunkOf(Of) : nullptr;
  if (!Left)
    return;
  if (Left->Gate)
    S.atLeast(Left->Stride * Left->Iteration);
  S.Mean = Out.lookup(Left->Preheader).Mean + (Left->Gate ? S.Mean : 0);
}

void Walk::place(Instruction *Before, State &S) {
  W.Points.push_back({Before, S.Mean});
  restart(S);
}

// Behind a safepoint.
void Walk::restart(State &S) {
  W.Longest = std::max(W.Longest, S.Real);
  if (S.SinceEntry)
    W.S.ToFirst = std::max(W.S.ToFirst, S.FromEntry);
  bool Reached = S.Reached;
  S = State();
  S.Reached = Reached;
  S.SinceEntry = false;
}

bool mayPlaceBefore(const Facts &F, const Loops &L, const Instruction &I) {
  const BasicBlock *BB = I.getParent();
  for (Loop *Of = F.A.LI.getLoopFor(BB); Of; Of = Of->getParentLoop())
    if (L.shortOf(Of) || L.chunkOf(Of))
      return false;
  return F.mayPlaceIn(*BB) && F.legal(I);
}

bool Walk::tryPlace(Instruction *Before, State &S) {
  if (!Placing || !mayPlaceBefore(F, L, *Before))
    return false;
  place(Before, S);
  return true;
}

void Walk::call(const CallBase &Call, State &S) {
  Summary E = F.effectOf(Call);
  S.Mean += E.Uncharged;
  if (E.MayYield) {
    W.S.MayYield = true;
    if (S.SinceEntry)
      W.S.ToFirst = std::max(W.S.ToFirst, S.FromEntry + E.ToFirst);
  }
  W.Longest = std::max(W.Longest, S.Real + E.ToFirst);
  if (E.Through) {
    S.pass(E.ThroughMax);
  } else {
    S.Longest = S.Real = 0;
    S.SinceEntry = false;
  }
  S.atLeast(E.MayYield ? E.FromLast : 0);
}

// Where an exception comes from a call: it may have been thrown before any safepoint there, or long after one.
State Walk::unwound(const InvokeInst &Call, State S) const {
  Summary E = F.effectOf(Call);
  S.Mean += E.Uncharged;
  S.pass(E.ToFirst);
  S.atLeast(E.MayYield ? E.FromLast : 0);
  return S;
}

void Walk::leave(Instruction &Return, State &S) {
  double Frequency = std::max(F.frequencyOf(*Return.getParent()), 1.0);
  ReturnFrequency += Frequency;
  ReturnMean += Frequency * S.Mean;
  W.Longest = std::max(W.Longest, S.Real);
  if (S.SinceEntry) {
    W.S.Through = true;
    W.S.ThroughMax = std::max(W.S.ThroughMax, S.FromEntry);
    W.S.ToFirst = std::max(W.S.ToFirst, S.FromEntry);
  }
  W.S.FromLast = std::max(W.S.FromLast, S.Real);
}

// A short loop, or a gated one up to its first gate, counts whole: what does not fit before the bound
// goes before the loop. A loop that is cut is a safepoint itself.
void Walk::beforeLoops(BasicBlock &BB, State &S) {
  for (BasicBlock *Next : successors(&BB)) {
    Loop *Of = A.LI.getLoopFor(Next);
    if (!Of || Of->getHeader() != Next || Of->contains(&BB))
      continue;
    const Chunk *Cut = L.chunkOf(Of);
    const ShortLoop *Short = L.shortOf(Of);
    if (Cut && !Cut->Gate) {
      W.Chunks[Cut - L.Chunks.begin()].second = S.Mean;
      restart(S);
      return;
    }
    unsigned Length = Short ? Short->Length : Cut ? Cut->Stride * Cut->Iteration : 0;
    if (S.Longest + Length > F.Bound && tryPlace(F.endOf(BB), S))
      return;
  }
}

void Walk::block(BasicBlock &BB, State S) {
  if (!S.Reached)
    return;
  if (F.Cold.contains(&BB)) {
    // Never returns: no length counts, but what it calls may yield.
    W.S.MayYield |= any_of(BB, isRealCall);
    Out[&BB] = S;
    return;
  }
  S.Mean += catches(BB) ? CaughtWork : 0;
  // A returning path must leave the caller its part: the last place for a safepoint is here.
  Instruction *Last = isa<ReturnInst>(BB.getTerminator()) ? F.endOf(BB) : nullptr;
  bool Recent = false; // nothing since the last safepoint
  for (Instruction &I : make_early_inc_range(BB)) {
    auto *Call = isRealCall(I) ? cast<CallBase>(&I) : nullptr;
    if (Placing && C.Forced.contains(&I) && !Recent) {
      place(&I, S);
      Recent = true;
    }
    unsigned Cost = Call ? 0 : F.costOf(I);
    unsigned Need = S.Longest + (Call ? F.effectOf(*Call).ToFirst : Cost);
    if (&I == Last && F.Far && S.Real > F.Quarter)
      Need = F.Bound + 1;
    if (Need > F.Bound && !Recent && tryPlace(&I, S))
      Recent = true;
    if (Cost == 0 && !Call && !isa<ReturnInst>(I))
      continue;
    Recent = false;
    if (Call) {
      if (auto *Invoke = dyn_cast<InvokeInst>(&I))
        Thrown[&BB] = unwound(*Invoke, S);
      call(*Call, S);
    } else if (isa<ReturnInst>(I)) {
      leave(I, S);
    } else {
      S.pass(Cost);
      S.Mean += Cost;
    }
  }
  if (BB.getTerminator()->getNumSuccessors() != 0)
    beforeLoops(BB, S);
  Out[&BB] = S;
}

// Safepoints in a loop's header charge what comes in over the back edge, which was not known yet when the
// walk came by.
void Walk::closeLoops() {
  for (auto [I, Cut] : enumerate(L.Chunks))
    W.Chunks[I].first = std::max(Out.lookup(Cut.Latch).Mean, 1.0);
  for (Point &Safepoint : W.Points) {
    BasicBlock *BB = Safepoint.Before->getParent();
    if (!A.LI.isLoopHeader(BB) || &*BB->getFirstInsertionPt() != Safepoint.Before)
      continue;
    State S = stateAt(*BB, /*WithBackEdges=*/true);
    Safepoint.Mean = S.Mean;
    W.Longest = std::max(W.Longest, S.Real);
  }
}

// Whether the ways back are as long as this walk took them for.
bool Walk::waysBackHold() const {
  return all_of(C.Open, [&](const BasicBlock *Header) {
    return all_of(predecessors(Header), [&](const BasicBlock *Before) {
      State Then = Previous.lookup(Before), Now = Out.lookup(Before);
      return !F.isBack(Before, Header) || (Then.Longest == Now.Longest && Then.Real == Now.Real &&
                                           std::abs(Then.Mean - Now.Mean) <= 1 + Now.Mean / 64);
    });
  });
}

// Walks until what was assumed of the ways back holds.
Walked Walk::run() {
  once();
  for (unsigned More = MostWalks; More != 0 && !waysBackHold(); More--)
    once();
  closeLoops();
  return std::move(W);
}

Walked walk(const Facts &F, const Loops &L, const Choice &C, bool Placing) { return Walk(F, L, C, Placing).run(); }

double Walked::frequency(const Facts &F) const {
  double Sum = 0;
  for (const Point &Safepoint : Points)
    Sum += F.frequencyOf(*Safepoint.Before->getParent());
  return Sum;
}

} // namespace curtail
