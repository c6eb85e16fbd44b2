// A part of Placer: loops without a safepoint on the way back, since they are short. The whole run of such a
// loop counts as part of the path that it lies on.
#include "cost.h"
#include "place.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Instructions.h"

using namespace llvm;

namespace curtail {

// From where an iteration of a loop comes to a block.
SmallVector<BasicBlock *, 4> Placer::beforeIn(const Loop &L, BasicBlock &BB) const {
  SmallVector<BasicBlock *, 4> Before;
  for (BasicBlock *From : predecessors(&BB))
    if (L.contains(From) && Index.lookup(From) < Index.lookup(&BB))
      Before.push_back(From);
  return Before;
}

unsigned Placer::longestIteration(Loop &L, bool &Possible, bool PastGates) const {
  DenseMap<const BasicBlock *, unsigned> Distance;
  unsigned Longest = 0;
  for (BasicBlock *BB : Order) {
    if (!L.contains(BB))
      continue;
    unsigned D = 0;
    for (BasicBlock *Before : beforeIn(L, *BB))
      D = std::max(D, Distance.lookup(Before));
    Loop *Inner = A.LI.getLoopFor(BB);
    if (Inner != &L && Inner->getHeader() == BB) {
      auto It = Free.find(Inner);
      const Chunk *C = headOfChunk(BB);
      if (It != Free.end())
        D += (It->second.Trips - 1) * It->second.Iteration;
      else
        Possible &= PastGates && C && C->Gate;
    }
    for (Instruction &I : *BB) {
      D += costOf(I, A.TLI, A.TTI);
      if (isRealCall(I)) {
        Effect E = effectOf(cast<CallBase>(I));
        Possible &= !E.MayYield && E.Through;
        D += E.ThroughMax;
      }
    }
    Distance[BB] = D;
    Longest = std::max(Longest, D);
    if (Longest > Bound)
      Possible = false;
    if (!Possible)
      return Longest;
  }
  return Longest;
}

// Small, and provably short: its whole run is part of the path that it lies on.
bool Placer::tryFree(Loop &L) {
  unsigned Trips = A.SE.getSmallConstantMaxTripCount(&L);
  if (Trips == 0 || Trips > Bound)
    return false;
  bool Possible = true;
  unsigned Iteration = longestIteration(L, Possible);
  if (!Possible || uint64_t(Trips) * Iteration > Bound / 2)
    return false;
  Free[&L] = {Trips, Iteration, A.SE.getSmallConstantTripCount(&L) == Trips, Trips * Iteration};
  return true;
}

// The longest paths through an iteration to a place: from its beginning, and from a call or safepoint in it;
// below zero if there is none.
namespace {
struct Paths {
  int Fresh = -1, After = -1;
  void join(const Paths &Other) {
    Fresh = std::max(Fresh, Other.Fresh);
    After = std::max(After, Other.After);
  }
  void pass(int Cost) {
    Fresh += Fresh < 0 ? 0 : Cost;
    After += After < 0 ? 0 : Cost;
  }
};
} // namespace

// Provably short but for what it calls: the loop over a node's children, most of which it has not got.
// With `Before`, a safepoint comes before each call that may return without one, or go on for ever; that
// is to be rarer than one in each iteration.
bool Placer::freeBetweenCalls(Loop &L, bool Before) {
  const unsigned Trips = A.SE.getSmallConstantMaxTripCount(&L);
  if (Trips == 0 || Trips > Bound)
    return false;
  SmallVector<Instruction *, 4> Points;
  DenseMap<const BasicBlock *, Paths> Ends;
  double Frequency = 0;
  int Most = 0; // the longest way from an iteration's beginning
  for (BasicBlock *BB : Order) {
    if (!L.contains(BB) || Cold.contains(BB))
      continue;
    Paths Here;
    Here.Fresh = BB == L.getHeader() ? 0 : -1;
    for (BasicBlock *From : beforeIn(L, *BB))
      Here.join(Ends.lookup(From));
    Loop *Inner = A.LI.getLoopFor(BB);
    auto It = Free.find(Inner);
    if (Inner != &L && (It == Free.end() || It->second.Calls))
      return false;
    if (Inner != &L && Inner->getHeader() == BB)
      Here.pass((It->second.Trips - 1) * It->second.Iteration);
    for (Instruction &I : *BB) {
      if (!isRealCall(I)) {
        Here.pass(costOf(I, A.TLI, A.TTI));
        continue;
      }
      auto &Call = cast<CallBase>(I);
      Effect E = effectOf(Call);
      bool Endless = Cycle.continues(Call.getCalledFunction());
      bool Point = E.MayYield && (Endless || (E.Through && Before));
      if (Point && (!Before || Inner != &L || !mayPlaceIn(*BB) || !legal(I)))
        return false;
      int Ahead = E.MayYield && !Point ? int(E.ToFirst) : 0;
      Most = std::max(Most, Here.Fresh + Ahead);
      if (Here.After + Ahead > int(Bound))
        return false;
      if (Point) {
        Points.push_back(&I);
        Frequency += frequencyOf(*BB);
      }
      if (Point || !E.Through)
        Here = Paths();
      Here.pass(E.ThroughMax);
      if (E.MayYield)
        Here.After = std::max(Here.After, int(std::max(E.FromLast, Point ? E.ThroughMax : 0)));
    }
    Ends[BB] = Here;
    Most = std::max(Most, Here.Fresh);
    if (Most > int(Bound))
      return false;
  }
  Paths Iteration;
  for (BasicBlock *Latch : predecessors(L.getHeader()))
    if (L.contains(Latch))
      Iteration.join(Ends.lookup(Latch));
  const unsigned Longest = std::max(Iteration.Fresh, 0), After = std::max(Iteration.After, 0);
  const unsigned Length = Most + (Trips - 1) * Longest;
  if (Length > Bound / 2 || After + Length > Bound || Frequency >= frequencyOf(*L.getHeader()))
    return false;
  Free[&L] = {Trips, Longest, /*Exact=*/false, Length, /*Calls=*/true, After};
  Open.insert(L.getHeader());
  Forced.insert(Points.begin(), Points.end());
  return true;
}

void Placer::findFreeLoops() {
  SmallVector<Loop *, 4> Loops = A.LI.getLoopsInPreorder();
  for (Loop *L : reverse(Loops)) // innermost first
    if (tryFree(*L) || freeBetweenCalls(*L, /*Before=*/false) || freeBetweenCalls(*L, /*Before=*/true))
      P.Short.push_back({L, Free[L].Trips, Free[L].Iteration});
}

} // namespace curtail
