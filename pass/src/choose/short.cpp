// Loops without a safepoint on the way back, since they are short. The whole run of such a loop counts as part of
// the path that it lies on.
#include "choose/loops.h"
#include "facts/cost.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Instructions.h"

using namespace llvm;

namespace curtail {

const ShortLoop *Loops::shortOf(const Loop *L) const {
  auto It = ShortIndex.find(L);
  return It == ShortIndex.end() ? nullptr : &Short[It->second];
}

unsigned Loops::longestIteration(const Loop &L, bool &Possible) const {
  DenseMap<const BasicBlock *, unsigned> Distance;
  unsigned Longest = 0;
  for (BasicBlock *BB : F.Order) {
    if (!L.contains(BB))
      continue;
    unsigned D = 0;
    for (BasicBlock *Before : F.beforeIn(L, *BB))
      D = std::max(D, Distance.lookup(Before));
    Loop *Inner = A.LI.getLoopFor(BB);
    if (Inner != &L && Inner->getHeader() == BB) {
      if (const ShortLoop *Counted = shortOf(Inner))
        D += (Counted->Trips - 1) * Counted->Iteration;
      else
        Possible = false;
    }
    for (Instruction &I : *BB) {
      D += F.costOf(I);
      if (isRealCall(I)) {
        Summary E = F.effectOf(cast<CallBase>(I));
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
bool Loops::tryShort(Loop &L) {
  unsigned Trips = A.SE.getSmallConstantMaxTripCount(&L);
  if (Trips == 0 || Trips > Bound)
    return false;
  bool Possible = true;
  unsigned Iteration = longestIteration(L, Possible);
  if (!Possible || uint64_t(Trips) * Iteration > Bound / 2)
    return false;
  Short.push_back({&L, Trips, Iteration, A.SE.getSmallConstantTripCount(&L) == Trips, Trips * Iteration});
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
bool Loops::shortBetweenCalls(Loop &L, bool Before) {
  const unsigned Trips = A.SE.getSmallConstantMaxTripCount(&L);
  if (Trips == 0 || Trips > Bound)
    return false;
  SmallVector<Instruction *, 4> Points;
  DenseMap<const BasicBlock *, Paths> Ends;
  double Frequency = 0;
  int Most = 0; // the longest way from an iteration's beginning
  for (BasicBlock *BB : F.Order) {
    if (!L.contains(BB) || F.Cold.contains(BB))
      continue;
    Paths Here;
    Here.Fresh = BB == L.getHeader() ? 0 : -1;
    for (BasicBlock *From : F.beforeIn(L, *BB))
      Here.join(Ends.lookup(From));
    Loop *Inner = A.LI.getLoopFor(BB);
    const ShortLoop *Counted = shortOf(Inner);
    if (Inner != &L && (!Counted || Counted->Calls))
      return false;
    if (Inner != &L && Inner->getHeader() == BB)
      Here.pass((Counted->Trips - 1) * Counted->Iteration);
    for (Instruction &I : *BB) {
      if (!isRealCall(I)) {
        Here.pass(F.costOf(I));
        continue;
      }
      auto &Call = cast<CallBase>(I);
      Summary E = F.effectOf(Call);
      bool Endless = F.Cycle.continues(Call.getCalledFunction());
      bool Point = E.MayYield && (Endless || (E.Through && Before));
      if (Point && (!Before || Inner != &L || !F.mayPlaceIn(*BB) || !F.legal(I)))
        return false;
      int Ahead = E.MayYield && !Point ? int(E.ToFirst) : 0;
      Most = std::max(Most, Here.Fresh + Ahead);
      if (Here.After + Ahead > int(Bound))
        return false;
      if (Point) {
        Points.push_back(&I);
        Frequency += F.frequencyOf(*BB);
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
  if (Length > Bound / 2 || After + Length > Bound || Frequency >= F.frequencyOf(*L.getHeader()))
    return false;
  Short.push_back({&L, Trips, Longest, /*Exact=*/false, Length, /*Calls=*/true, After});
  Asked.Open.insert(L.getHeader());
  Asked.Forced.insert(Points.begin(), Points.end());
  return true;
}

void Loops::findShort() {
  SmallVector<Loop *, 4> All = A.LI.getLoopsInPreorder();
  for (Loop *L : reverse(All)) // innermost first
    if (tryShort(*L) || shortBetweenCalls(*L, /*Before=*/false) || shortBetweenCalls(*L, /*Before=*/true))
      ShortIndex[L] = Short.size() - 1;
}

} // namespace curtail
