// A part of Placer: safepoints where they run seldom.
//
// The walk puts a safepoint where the longest way to a place gets too long. Mostly that is not the way that
// is taken: where the usual one is short, and a rare one long, a safepoint at the rare one's end does as
// well. Which ends are cheapest is a minimum cut through all ways that are too long, by LLVM's block
// frequencies. Here they are cut one after the other, the longest first, each at its rarest block, and that
// stays if all safepoints together run less often, by the same frequencies.
#include "cost.h"
#include "place.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Instructions.h"

using namespace llvm;

namespace curtail {

// Frequencies are estimates: what is cut is less usual by so much than the place that it leads to.
static const double MostUsual = 0.6;

// Each try walks the whole function. The most frequent safepoints come first.
static const unsigned MostTries = 128;

double Placer::frequencyOfPoints() const {
  double Sum = 0;
  for (const Point &Safepoint : P.Points)
    Sum += frequencyOf(*Safepoint.Before->getParent());
  return Sum;
}

bool Placer::isPoint(const Instruction *I) const {
  return any_of(P.Points, [&](const Point &Safepoint) { return Safepoint.Before == I; });
}

// Where the longest way into a block comes from: `Real` as in State. Null in the entry.
BasicBlock *Placer::longestWayInto(const BasicBlock &BB, bool Real) const {
  BasicBlock *Longest = nullptr;
  unsigned Length = 0;
  for (const BasicBlock *Before : predecessors(&BB)) {
    State S = Out.lookup(Before);
    if (!S.Reached || Index.lookup(Before) >= Index.lookup(&BB))
      continue;
    leaveChunk(Before, &BB, S);
    unsigned Here = Real ? S.Real : S.Longest;
    if (!Longest || Here > Length) {
      Longest = const_cast<BasicBlock *>(Before);
      Length = Here;
    }
  }
  return Longest;
}

// The place for a safepoint on the longest way to one, since the one before, that is the rarest, and rarer
// than `Most`.
Instruction *Placer::rarestOnTheWay(Instruction &Safepoint, double Most) {
  BasicBlock *BB = Safepoint.getParent();
  auto *Return = dyn_cast<ReturnInst>(BB->getTerminator());
  bool Real = Far && Return && endOf(*BB) == &Safepoint;
  Instruction *Rarest = nullptr;
  auto Begins = [&](Instruction &I) {
    return isPoint(&I) || (isRealCall(I) && !effectOf(cast<CallBase>(I)).Through);
  };
  do {
    BB = longestWayInto(*BB, Real);
    if (!BB)
      break;
    // In a loop on the way it would run once an iteration, and how many there are is guessed.
    Loop *L = A.LI.getLoopFor(BB);
    double Frequency = frequencyOf(*BB);
    if (Frequency >= Most || (L && !L->contains(Safepoint.getParent())))
      continue;
    Instruction *End = endOf(*BB);
    if (mayPlaceBefore(*End) && !isPoint(End) && !Forced.contains(End)) {
      Rarest = End;
      Most = Frequency;
    }
  } while (none_of(*BB, Begins));
  return Rarest;
}

// Moves a safepoint to the ways that need it, if that is better: no other than those that were moved there
// may be needed for it. At most so many tries; how many are left.
unsigned Placer::tryRareWays(Instruction &Safepoint, unsigned Tries) {
  auto Before = std::make_tuple(Forced, Late, Unspared);
  const double All = frequencyOfPoints();
  const unsigned Longest = std::max(P.Longest, Bound);
  double Left = frequencyOf(*Safepoint.getParent());
  const size_t Points = P.Points.size();
  size_t Added = 0;
  while (isPoint(&Safepoint) && Added < Tries) {
    Instruction *Rarest = rarestOnTheWay(Safepoint, MostUsual * Left);
    if (!Rarest)
      break;
    Left -= frequencyOf(*Rarest->getParent());
    Forced.insert(Rarest);
    Added++;
    settle();
  }
  bool Better = !isPoint(&Safepoint) && P.Points.size() < Points + Added && frequencyOfPoints() < All &&
                P.Longest <= Longest;
  if (Added != 0 && !Better) {
    std::tie(Forced, Late, Unspared) = Before;
    settle();
  }
  return Tries - Added;
}

void Placer::preferRareWays() {
  SmallVector<Instruction *, 16> Demanded;
  for (const Point &Safepoint : P.Points)
    if (!Forced.contains(Safepoint.Before))
      Demanded.push_back(Safepoint.Before);
  stable_sort(Demanded, [&](const Instruction *L, const Instruction *R) {
    return frequencyOf(*L->getParent()) > frequencyOf(*R->getParent());
  });
  unsigned Tries = MostTries;
  for (Instruction *Safepoint : Demanded)
    if (Tries != 0 && isPoint(Safepoint))
      Tries = tryRareWays(*Safepoint, Tries);
}

} // namespace curtail
