// The second half of Placer: the walk along all paths, in reverse post-order, which places what the
// bound demands and works out what each safepoint charges.
#include "coldcalls.h"
#include "cost.h"
#include "place.h"
#include "tls.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Instructions.h"

using namespace llvm;

namespace curtail {

// Where ways back are counted, each level of a nest needs a walk more until lengths hold, and the mean comes
// nearer with each.
static const unsigned MostWalks = 32;

void Placer::walk() {
  Previous = std::move(Out);
  Out.clear();
  Thrown.clear();
  P.Points.clear();
  P.Longest = 0;
  Result = Summary();
  Result.Through = false;
  ReturnFrequency = ReturnMean = 0;
  for (BasicBlock *BB : Order)
    walkBlock(*BB, stateAt(*BB));
  if (ReturnFrequency > 0)
    Result.Uncharged = ReturnMean / ReturnFrequency;
}

// Of ways that are taken more or less often.
namespace {
struct Average {
  double Weight = 0, Sum = 0;
  void add(double W, double Value) {
    Weight += W;
    Sum += W * Value;
  }
};
} // namespace

// What comes in from the predecessors: their longest distance, and their mean weighted by how often
// each edge is taken. On the walk itself a back edge brings nothing but its weight: either it comes
// from a safepoint, or it leads to one, which closeLoops corrects. Where neither holds, it brings what
// the walk before found.
Placer::State Placer::stateAt(BasicBlock &BB, bool WithBackEdges) const {
  State S;
  if (&BB == &F.getEntryBlock()) {
    S.Reached = true;
    // The part of the convention that lies in the callers.
    S.Longest = Visible ? Bound - Quarter : Bound / 2;
    if (!Placing)
      S.Longest = 0;
    return S;
  }
  Average Into, Around;
  S.SinceEntry = false;
  Loop *L = A.LI.getLoopFor(&BB);
  const Chunk *Head = headOfChunk(&BB);
  auto It = L && L->getHeader() == &BB ? Free.find(L) : Free.end();
  const FreeLoop *Short = It == Free.end() ? nullptr : &It->second;
  bool WithoutBack = Head || (Short && !Short->Calls);
  for (BasicBlock *Before : predecessors(&BB)) {
    bool Back = Index.lookup(Before) >= Index.lookup(&BB);
    if (!Index.count(Before) || (Back && WithoutBack))
      continue;
    State From;
    auto *Invoke = dyn_cast<InvokeInst>(Before->getTerminator());
    if (Invoke && Invoke->getUnwindDest() == &BB)
      From = Thrown.lookup(Before);
    else if (!Back || WithBackEdges)
      From = Out.lookup(Before);
    else if (Open.contains(&BB))
      From = Previous.lookup(Before);
    if (From.Reached)
      leaveChunk(Before, &BB, From);
    double Weight = frequencyOf(*Before) * A.BPI.getEdgeProbability(Before, &BB).getNumerator();
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
    unsigned Rest = isSelf(*Head) ? 0 : absorbed(Opts);
    Rest = Head->Whole ? Rest : (Head->First - 1) * Head->Iteration;
    S.Longest += Rest;
    S.Real += Rest;
    S.FromEntry += Rest;
  } else if (Short) {
    unsigned Rest = (Short->Trips - 1) * Short->Iteration;
    S.Longest = std::max(S.Longest, Short->After) + Rest;
    S.Real = std::max(S.Real, Short->After) + Rest;
    S.FromEntry += Rest;
    if (!Short->Calls)
      S.Mean += Short->Exact ? Rest : Rest / 2;
  }
  return S;
}

void Placer::place(Instruction *Before, State &S) {
  P.Points.push_back({Before, S.Mean, nestOf(Before->getParent())});
  restart(S);
}

// Behind a safepoint.
void Placer::restart(State &S) {
  P.Longest = std::max(P.Longest, S.Real);
  if (S.SinceEntry)
    Result.ToFirst = std::max(Result.ToFirst, S.FromEntry);
  bool Reached = S.Reached;
  S = State();
  S.Reached = Reached;
  S.SinceEntry = false;
}

bool Placer::mayPlaceBefore(const Instruction &I) const {
  const BasicBlock *BB = I.getParent();
  for (Loop *L = A.LI.getLoopFor(BB); L; L = L->getParentLoop())
    if (Free.count(L) || chunkOf(L) >= 0)
      return false;
  return mayPlaceIn(*BB) && legal(I);
}

bool Placer::tryPlace(Instruction *Before, State &S) {
  if (!mayPlaceBefore(*Before))
    return false;
  place(Before, S);
  return true;
}

void Placer::passCall(const CallBase &Call, State &S) {
  Effect E = effectOf(Call);
  S.Mean += E.Charge;
  if (E.MayYield) {
    Result.MayYield = true;
    if (S.SinceEntry)
      Result.ToFirst = std::max(Result.ToFirst, S.FromEntry + E.ToFirst);
  }
  P.Longest = std::max(P.Longest, S.Real + E.ToFirst);
  unsigned After = E.MayYield ? E.FromLast : 0;
  S.Longest = std::max(E.Through ? S.Longest + E.ThroughMax : 0, After);
  S.Real = std::max(E.Through ? S.Real + E.ThroughMax : 0, After);
  if (E.Through)
    S.FromEntry += E.ThroughMax;
  else
    S.SinceEntry = false;
}

// Where an exception comes from a call: it may have been thrown before any safepoint there, or long after one.
Placer::State Placer::unwound(const InvokeInst &Call, State S) const {
  Effect E = effectOf(Call);
  unsigned After = E.MayYield ? E.FromLast : 0;
  S.Mean += E.Charge;
  S.Longest = std::max(S.Longest + E.ToFirst, After);
  S.Real = std::max(S.Real + E.ToFirst, After);
  S.FromEntry += E.ToFirst;
  return S;
}

void Placer::passReturn(Instruction &Return, State &S) {
  double Frequency = std::max(frequencyOf(*Return.getParent()), 1.0);
  ReturnFrequency += Frequency;
  ReturnMean += Frequency * S.Mean;
  P.Longest = std::max(P.Longest, S.Real);
  if (S.SinceEntry) {
    Result.Through = true;
    Result.ThroughMax = std::max(Result.ThroughMax, S.FromEntry);
    Result.ToFirst = std::max(Result.ToFirst, S.FromEntry);
  }
  Result.FromLast = std::max(Result.FromLast, S.Real);
}

// A short loop, or the first step of a chunked one, counts whole: what does not fit before the bound
// goes before the loop. A loop that is charged as a whole is a safepoint itself.
void Placer::beforeLoops(BasicBlock &BB, State &S) {
  for (BasicBlock *Next : successors(&BB)) {
    Loop *L = A.LI.getLoopFor(Next);
    if (!L || L->getHeader() != Next || L->contains(&BB))
      continue;
    int At = chunkOf(L);
    unsigned Length = 0;
    if (auto It = Free.find(L); It != Free.end()) {
      Length = It->second.Length;
    } else if (At >= 0 && isSelf(P.Chunks[At])) {
      P.Chunks[At].Before = S.Mean;
      restart(S);
      return;
    } else if (At >= 0 && !P.Chunks[At].Whole) {
      Length = P.Chunks[At].First * P.Chunks[At].Iteration;
    }
    if (S.Longest + Length > Bound && tryPlace(endOf(BB), S))
      return;
  }
}

void Placer::walkBlock(BasicBlock &BB, State S) {
  if (!S.Reached)
    return;
  if (Cold.contains(&BB)) {
    // Never returns: no length counts, but what it calls may yield.
    Result.MayYield |= any_of(BB, isRealCall);
    Out[&BB] = S;
    return;
  }
  S.Mean += Stalls.lookup(&BB) + (catches(BB) ? CaughtWork : 0);
  // A returning path must leave the caller its part: the last place for a safepoint is here.
  Instruction *Last = isa<ReturnInst>(BB.getTerminator()) ? endOf(BB) : nullptr;
  bool Recent = false; // nothing since the last safepoint
  for (Instruction &I : make_early_inc_range(BB)) {
    if (Placing && Forced.contains(&I) && !Recent) {
      place(&I, S);
      Recent = true;
    }
    unsigned Cost = isRealCall(I) ? 0 : costOf(I, A.TLI, A.TTI);
    unsigned Need = S.Longest + Cost;
    if (isRealCall(I))
      Need = S.Longest + effectOf(cast<CallBase>(I)).ToFirst;
    if (&I == Last && Far && Placing && S.Real > Quarter)
      Need = Bound + 1;
    if (Need > Bound && !Recent && tryPlace(&I, S))
      Recent = true;
    if (Cost == 0 && !isRealCall(I) && !isa<ReturnInst>(I))
      continue;
    Recent = false;
    if (isRealCall(I)) {
      if (auto *Invoke = dyn_cast<InvokeInst>(&I))
        Thrown[&BB] = unwound(*Invoke, S);
      passCall(cast<CallBase>(I), S);
    } else if (isa<ReturnInst>(I)) {
      passReturn(I, S);
    } else {
      S.Longest += Cost;
      S.Real += Cost;
      S.Mean += Cost;
      S.FromEntry += Cost;
    }
  }
  if (BB.getTerminator()->getNumSuccessors() != 0)
    beforeLoops(BB, S);
  Out[&BB] = S;
}

// Safepoints in a loop's header charge what comes in over the back edge, which was not known yet when the
// walk came by.
void Placer::closeLoops() {
  for (Chunk &C : P.Chunks) {
    C.Mean = std::max(Out.lookup(C.Latch).Mean, 1.0);
    C.Nest = nestOf(C.Header);
  }
  for (Point &Safepoint : P.Points) {
    BasicBlock *BB = Safepoint.Before->getParent();
    bool Top = &*BB->getFirstInsertionPt() == Safepoint.Before;
    if (!A.LI.isLoopHeader(BB) || !Top)
      continue;
    State S = stateAt(*BB, /*WithBackEdges=*/true);
    Safepoint.Mean = S.Mean + Stalls.lookup(BB);
    P.Longest = std::max(P.Longest, S.Real);
  }
}

// Whether the ways back are as long as this walk took them for.
bool Placer::waysBackHold() const {
  return all_of(Open, [&](const BasicBlock *Header) {
    return all_of(predecessors(Header), [&](const BasicBlock *Before) {
      State Then = Previous.lookup(Before), Now = Out.lookup(Before);
      return Index.lookup(Before) < Index.lookup(Header) ||
             (Then.Longest == Now.Longest && Then.Real == Now.Real &&
              std::abs(Then.Mean - Now.Mean) <= 1 + Now.Mean / 64);
    });
  });
}

// Walks until what was assumed of the ways back holds.
void Placer::settle() {
  walk();
  for (unsigned More = MostWalks; More != 0 && !waysBackHold(); More--)
    walk();
  closeLoops();
}

// Work between the last safepoint and the return is charged by a safepoint that runs once in every
// activation if there is one, else by the callers that see this function.
void Placer::chargeRemainder() {
  for (Point &Safepoint : P.Points) {
    BasicBlock *BB = Safepoint.Before->getParent();
    bool Always = !A.LI.getLoopFor(BB) && all_of(Order, [&](BasicBlock *Exit) {
      return !isa<ReturnInst>(Exit->getTerminator()) || A.DT.dominates(BB, Exit);
    });
    if (!Always)
      continue;
    Safepoint.Mean += Result.Uncharged;
    Result.Uncharged = 0;
    return;
  }
}

} // namespace curtail
