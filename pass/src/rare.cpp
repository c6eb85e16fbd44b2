// A part of Placer: safepoints where they run seldom.
//
// The walk puts a safepoint where the longest way to a place gets too long. Mostly that is not the way that
// is taken: where the usual one is short, and a rare one long, a safepoint at the rare one's end does as
// well. Which ends are cheapest is a minimum cut through all ways that are too long, by LLVM's block
// frequencies. Here they are cut one after the other, the longest first, each at its rarest block, and that
// stays if all safepoints together run less often, by the same frequencies.
//
// Where many ways join, and some of them need the safepoint, these get a block of their own before that
// (joinsToPart).
//
// And a loop's safepoint goes from the top of the header, which is passed by those, too, who never go round,
// behind the tests that end the loop.
#include "cost.h"
#include "place.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Instructions.h"

using namespace llvm;

namespace curtail {

// Frequencies are estimates: a place is taken for rarer than another one if it is less usual by so much.
static const double MostUsual = 0.6;

// Each try walks the whole function. The most frequent safepoints come first.
static const unsigned MostTries = 128;

Placer::Choice Placer::choice() const {
  return {Forced, Late, Unspared, Open, frequencyOfPoints(), P.Points.size(), std::max(P.Longest, Bound)};
}

bool Placer::isBetterThan(const Choice &Other) const {
  return frequencyOfPoints() < Other.Frequency && P.Longest <= Other.Longest;
}

void Placer::takeBack(const Choice &To) {
  Forced = To.Forced;
  Late = To.Late;
  Unspared = To.Unspared;
  Open = To.Open;
  settle();
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

// A place for a safepoint on the longest way to one, since the one before, that is rarer than `Most`: the
// rarest, or the last.
Instruction *Placer::rareOnTheWay(Instruction &Safepoint, double Most, bool Rarest) {
  BasicBlock *BB = Safepoint.getParent();
  auto *Return = dyn_cast<ReturnInst>(BB->getTerminator());
  bool Real = Far && Return && endOf(*BB) == &Safepoint;
  Instruction *Rare = nullptr;
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
      Rare = End;
      Most = Frequency;
      if (!Rarest)
        break;
    }
  } while (none_of(*BB, Begins));
  return Rare;
}

// Moves a safepoint to the ways that need it, to the rarest or the last place on each: whether that is
// better. No other than those that were moved there may be needed for it. `Tries` counts down.
bool Placer::tryWays(Instruction &Safepoint, bool ToRarest, unsigned &Tries) {
  const Choice Before = choice();
  double Left = frequencyOf(*Safepoint.getParent());
  size_t Added = 0;
  while (isPoint(&Safepoint) && Tries != 0) {
    Instruction *Rare = rareOnTheWay(Safepoint, MostUsual * Left, ToRarest);
    if (!Rare)
      break;
    Left -= frequencyOf(*Rare->getParent());
    Forced.insert(Rare);
    Added++;
    Tries--;
    settle();
  }
  bool Better = !isPoint(&Safepoint) && P.Points.size() < Before.Points + Added && isBetterThan(Before);
  if (Added != 0 && !Better)
    takeBack(Before);
  return Better;
}

// Of both, the better.
void Placer::tryRareWays(Instruction &Safepoint, unsigned &Tries) {
  const Choice Before = choice();
  if (!tryWays(Safepoint, /*ToRarest=*/false, Tries)) {
    tryWays(Safepoint, /*ToRarest=*/true, Tries);
    return;
  }
  const Choice Last = choice();
  takeBack(Before);
  if (!tryWays(Safepoint, /*ToRarest=*/true, Tries) || !isBetterThan(Last))
    takeBack(Last);
}

// The last place of each turn of a loop before its first call or inner loop: behind the tests that end it
// before it does much. Null if that is the header, or there is none.
Instruction *Placer::placeBehindTests(const Loop &L) const {
  BasicBlock *Latch = L.getLoopLatch();
  auto Calls = [&](const Instruction &I) {
    return isRealCall(I) && effectOf(cast<CallBase>(I)).MayYield;
  };
  BasicBlock *First = nullptr;
  for (BasicBlock *BB : L.blocks())
    if ((A.LI.getLoopFor(BB) != &L || any_of(*BB, Calls)) &&
        (!First || Index.lookup(BB) < Index.lookup(First)))
      First = BB;
  if (!First)
    return nullptr;
  for (BasicBlock *BB = Latch; BB && BB != L.getHeader(); BB = A.DT.getNode(BB)->getIDom()->getBlock()) {
    if (Index.lookup(BB) > Index.lookup(First) || A.LI.getLoopFor(BB) != &L)
      continue;
    Instruction *Place = BB == First ? &*find_if(*BB, Calls) : endOf(*BB);
    return mayPlaceBefore(*Place) ? Place : nullptr;
  }
  return nullptr;
}

// Whether loops that have no safepoint of their own still have one in each iteration.
bool Placer::openCovered() const {
  const Blocks Charging = beforeChunks();
  return all_of(Open, [&](const BasicBlock *Header) {
    const Loop *L = A.LI.getLoopFor(Header);
    return Free.count(L) || isCovered(*L, Charging);
  });
}

// Where calls are, the safepoint of a loop goes behind the tests that end it, if the function then has no
// more of them, and they run less often.
void Placer::preferBehindTests(unsigned &Tries) {
  for (Loop *L : A.LI.getLoopsInPreorder()) {
    Instruction *Top = &*L->getHeader()->getFirstInsertionPt();
    Instruction *Behind = Tries != 0 && Forced.contains(Top) && callsOut(*L) ? placeBehindTests(*L) : nullptr;
    if (!Behind)
      continue;
    const Choice Before = choice();
    const size_t Uncovered = uncoveredCalls().size();
    Tries--;
    Forced.remove(Top);
    Forced.insert(Behind);
    Open.insert(L->getHeader());
    settle();
    if (P.Points.size() > Before.Points || uncoveredCalls().size() > Uncovered || !isBetterThan(Before) ||
        !openCovered())
      takeBack(Before);
  }
}

void Placer::preferRareWays(unsigned &Tries) {
  SmallVector<Instruction *, 16> Demanded;
  for (const Point &Safepoint : P.Points)
    if (!Forced.contains(Safepoint.Before))
      Demanded.push_back(Safepoint.Before);
  stable_sort(Demanded, [&](const Instruction *L, const Instruction *R) {
    return frequencyOf(*L->getParent()) > frequencyOf(*R->getParent());
  });
  for (Instruction *Safepoint : Demanded)
    if (Tries != 0 && isPoint(Safepoint))
      tryRareWays(*Safepoint, Tries);
}

// The ways into a safepoint's block that need it, at its beginning or before its return, if others do not.
SmallVector<BasicBlock *, 4> Placer::longWaysTo(Instruction &Safepoint) const {
  BasicBlock *BB = Safepoint.getParent();
  bool Returns = Far && isa<ReturnInst>(BB->getTerminator()) && endOf(*BB) == &Safepoint;
  unsigned Way = Returns ? 0 : costOf(Safepoint, A.TLI, A.TTI);
  for (const Instruction &I : make_range(BB->begin(), Safepoint.getIterator())) {
    if (isRealCall(I) || isPoint(&I))
      return {};
    Way += costOf(I, A.TLI, A.TTI);
  }
  SmallSetVector<BasicBlock *, 4> Long;
  bool All = true;
  for (BasicBlock *Before : predecessors(BB)) {
    State S = Out.lookup(Before);
    if (!isa<BranchInst, SwitchInst>(Before->getTerminator()))
      return {};
    leaveChunk(Before, BB, S);
    bool Needs = S.Reached && (Returns ? S.Real + Way > Quarter : S.Longest + Way > Bound);
    if (Needs)
      Long.insert(Before);
    All &= Needs;
  }
  return All ? SmallVector<BasicBlock *, 4>() : Long.takeVector();
}

SmallVector<Join, 2> Placer::joinsToPart() {
  SmallVector<Join, 2> Joins;
  if (!demand())
    return Joins;
  for (const Point &Safepoint : P.Points) {
    BasicBlock *BB = Safepoint.Before->getParent();
    if (Forced.contains(Safepoint.Before) || isRealCall(*Safepoint.Before) || BB->isEHPad() ||
        A.LI.isLoopHeader(BB))
      continue;
    Join Parted = {BB, longWaysTo(*Safepoint.Before)};
    double Frequency = 0;
    for (BasicBlock *Before : Parted.Long)
      Frequency += frequencyOf(*Before) * A.BPI.getEdgeProbability(Before, BB).toDouble();
    bool Apart = Parted.Long.size() == 1 && Parted.Long[0]->getSingleSuccessor();
    if (!Parted.Long.empty() && !Apart && Frequency <= MostUsual * frequencyOf(*BB))
      Joins.push_back(std::move(Parted));
  }
  return Joins;
}

void Placer::preferSeldom() {
  unsigned Tries = MostTries;
  preferBehindTests(Tries);
  preferRareWays(Tries);
}

} // namespace curtail
