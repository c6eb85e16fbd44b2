// Where safepoints go, and what each of them charges.
//
// The promise: no path between two safepoints is longer than the bound. Two figures travel along
// the paths of a function: `Longest`, the longest distance since a safepoint, on which placement
// decides, and `Mean`, the work that is expected since the last charge, which a safepoint of kind
// clock subtracts from the budget. Calls reset the first (the callee has safepoints of its own) but
// not the second (a callee charges only for itself).
//
// Functions that are called from where this module cannot see (other modules, pointers) keep a
// convention: at most a quarter of the bound lies before their first safepoint and after their
// last, and if they have none, between entry and exit. Callers that see a callee use its summary.
#pragma once
#include "longcalls.h"
#include "options.h"
#include "unroll.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Analysis/BlockFrequencyInfo.h"
#include "llvm/Analysis/BranchProbabilityInfo.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/InstrTypes.h"

namespace curtail {

class ThreadLocalLiveness;

// What callers need to know of a function.
struct Summary {
  unsigned ToFirst = 0;   // longest path from entry to a safepoint, or to a call that may have one
  bool Through = true;    // some path from entry to exit has none
  unsigned ThroughMax = 0;
  unsigned FromLast = 0;  // longest path from a safepoint to the exit
  double Uncharged = 0;   // expected work of an activation that no safepoint of its own charges
  bool MayYield = false;  // it has safepoints, or calls what may have
};
using Summaries = llvm::DenseMap<const llvm::Function *, Summary>;

struct Point {
  llvm::Instruction *Before;
  double Mean;  // work to charge
  int Nest;     // index into Plan::Nests, or -1: straight to the thread-local budget
};

// A loop without a safepoint.
struct ShortLoop {
  llvm::Loop *L;
  unsigned Trips, Iteration; // at most
};

// A loop that is cut into chunks, so that nothing is added to its body, or gated; see chunk.cpp.
struct Chunk {
  llvm::Loop *L;
  llvm::BasicBlock *Preheader, *Header, *Latch;
  // What the latch compares, an affine recurrence of the loop.
  llvm::Instruction *Counter = nullptr;
  // Of the counter: at the first latch, at the last, between.
  const llvm::SCEV *Start = nullptr, *Last = nullptr, *Step = nullptr;
  const llvm::SCEV *Taken = nullptr;     // how often the back edge is taken: iterations less one
  bool Whole = false;                    // charged as a whole on entry; else by steps of Stride
  llvm::Instruction *Gate = nullptr;     // not cut: what says, modulo a power of two, when to look
  unsigned First = 0, Stride = 0;        // iterations of the first step, and of the others
  unsigned Iteration = 0;                // longest path through the body
  double Mean = 1;                       // work of an iteration that nothing else charges
  double Before = 0;                     // work on the way to the loop, charged with it
  int Parent = -1;                       // the chunked loop around it that charges for it if it is short
  bool Unchecked = false;                // if it is short, a safepoint of the loop around it looks
  int Nest = -1;                         // index into Plan::Nests
  // A phi of the header that counts along, and how far the latch's counter is ahead of it.
  llvm::PHINode *Index = nullptr;
  llvm::APInt Ahead;
  bool Copied = false;                   // cut is a copy: what fits runs through the loop as it was
};

struct Plan {
  llvm::SmallVector<Point, 8> Points;
  llvm::SmallVector<Chunk, 4> Chunks; // inner ones before outer ones
  // Loop nests in which the budget lives in a register.
  llvm::SmallVector<llvm::Loop *, 4> Nests;
  llvm::SmallVector<llvm::CallBase *, 4> Bracketed;
  llvm::SmallVector<ShortLoop, 4> Short;
  llvm::SmallVector<LongCall, 4> LongCalls;
  unsigned Longest = 0;
  // How deep in loops it will be: each that is cut becomes two.
  unsigned depthOf(const llvm::Loop &L) const {
    auto Cut = [&](const Chunk &C) { return !C.Gate && C.L->contains(&L); };
    return L.getLoopDepth() + count_if(Chunks, Cut);
  }
  unsigned LoopsWithout = 0; // loops that got none because a thread-local address is live
};

struct Analyses {
  llvm::LoopInfo &LI;
  llvm::DominatorTree &DT;
  llvm::BlockFrequencyInfo &BFI;
  llvm::BranchProbabilityInfo &BPI;
  llvm::ScalarEvolution &SE;
  llvm::TargetLibraryInfo &TLI;
  llvm::TargetTransformInfo &TTI;
};

// Work of a loop's iteration up to which it is unrolled, or gated, or both.
const unsigned MostTight = 24;

// A gate that is passed more often saves nothing over a safepoint: each time may be a surprise to the
// branch predictor.
const unsigned LeastPeriod = 8;

// Work between a call and a return that is let pass without a safepoint of its own. A chain of returns can
// therefore be this much times its depth long. A list's recursion is as deep as the list
// is long; where activations call more than once, it is as deep as a tree, and returns may take longer.
const unsigned Tolerance = 16, TreeTolerance = 48;

// Work that a chunked loop may leave to the loop around it, as part of the bound.
inline unsigned absorbed(const Options &O) { return O.Bound / 2; }

// Work of an exception, from where it is thrown to where it is caught, at least: it takes a microsecond or more.
const unsigned CaughtWork = 2000;

// Work of what is called, and not known, on its longest way through without a safepoint: most are shorter.
const unsigned UsualThrough = 20;

using Functions = llvm::SmallPtrSet<const llvm::Function *, 8>;

// The functions that return to callers that do not see them: those that may be called from elsewhere, and
// what is called in the place of their return.
Functions returningFar(llvm::Module &M);

// Functions that call one another, as far as the module sees; none where there is no recursion. Each has a
// safepoint on its way to such a call.
struct CallCycle {
  Functions Members;
  // An activation may call members several times, one after the other.
  bool Branches = false;
  // The longest way through a member without a safepoint.
  unsigned Through = UsualThrough;
  bool continues(const llvm::Function *Callee) const { return Callee && Members.contains(Callee); }
};

// Plans one function. `Far`: see returningFar.
class Placer {
public:
  Placer(llvm::Function &F, const Analyses &A, const Summaries &Known,
         const CallCycle &Cycle, const Functions &Far, const Options &O);
  Plan plan();
  // Innermost loops in which a safepoint would show although it keeps its budget in a register.
  llvm::SmallVector<TightLoop, 4> tightLoops();
  // Valid after plan().
  Summary summary() const { return Result; }

private:
  struct Effect {
    unsigned ToFirst;
    bool Through;
    unsigned ThroughMax;
    bool MayYield;
    unsigned FromLast;
    double Charge;
  };
  struct State {
    unsigned Longest = 0; // with what the callers are assumed to bring
    unsigned Real = 0;    // in this function alone
    double Mean = 0;
    bool Reached = false;
    bool SinceEntry = true; // some path from the entry comes here without a safepoint
    unsigned FromEntry = 0; // the longest of these
  };
  // Which safepoints are asked for, and what comes of it.
  struct Choice {
    llvm::SmallSetVector<llvm::Instruction *, 8> Forced;
    llvm::SmallPtrSet<const llvm::BasicBlock *, 4> Open;
    double Frequency;
    size_t Points;
    unsigned Longest;
  };
  using Blocks = llvm::SmallPtrSet<const llvm::BasicBlock *, 4>;
  struct FreeLoop {
    unsigned Trips;
    unsigned Iteration; // longest path
    bool Exact;
    unsigned Length;    // of all iterations
    // With calls that may yield, all this is between them, and:
    bool Calls = false;
    unsigned After = 0; // the longest path since such a call at the end of its iteration
  };

  Effect effectOf(const llvm::CallBase &Call) const;
  void findStalls();
  void findFreeLoops();
  llvm::SmallVector<llvm::BasicBlock *, 4> beforeIn(const llvm::Loop &L, llvm::BasicBlock &BB) const;
  bool tryFree(llvm::Loop &L);
  bool freeBetweenCalls(llvm::Loop &L, bool Before);
  unsigned longestIteration(llvm::Loop &L, bool &Possible, bool PastGates = false) const;
  void findChunks();
  bool tryChunk(llvm::Loop &L, bool OnlyWhole);
  bool tryGate(llvm::Loop &L);
  bool chooseGate(llvm::Loop &L, Chunk &C) const;
  bool shapeOf(llvm::Loop &L, Chunk &C) const;
  bool describe(llvm::Loop &L, Chunk &C) const;
  void chooseCounter(llvm::Loop &L, const llvm::Value *Test, Chunk &C) const;
  void findIndex(Chunk &C) const;
  bool exitsEarly(const llvm::Loop &L) const;
  unsigned longestBody(llvm::Loop &L, bool &Pure) const;
  bool mostlyRuns(const Chunk &C, const llvm::Loop &Around) const;
  bool invariantIn(int Index, const llvm::Loop &Around) const;
  int chunkOf(const llvm::Loop *L) const;
  const Chunk *headOfChunk(const llvm::BasicBlock *BB) const;
  void leaveChunk(const llvm::BasicBlock *Before, const llvm::BasicBlock *BB, State &S) const;
  bool alwaysLooks(const llvm::Instruction &I) const;
  bool looks(const llvm::BasicBlock &BB) const;
  bool isCovered(const llvm::Loop &L, const Blocks &Others = {}) const;
  Blocks beforeChunks() const;
  bool openCovered() const;
  void forceLoopPoints();
  bool forceHeader(llvm::Loop &L);
  bool forceWayBack(llvm::Loop &L);
  bool callsOut(const llvm::Loop &L) const;
  bool forceLatch(llvm::Loop &L, llvm::BasicBlock &Latch);
  void forceIrreducible();
  llvm::SmallVector<llvm::CallBase *, 4> uncoveredCalls() const;
  void forceRecursion();
  void forceCatches();
  void forceTop(llvm::BasicBlock &BB);
  void chooseNests();
  void chooseCopies();
  bool nestPossible(llvm::Loop &L) const;
  bool worthRegister(llvm::Loop &L) const;
  int nestOf(const llvm::BasicBlock *BB) const;
  bool isSelf(const Chunk &C) const { return C.Whole && C.Parent < 0 && !C.Unchecked; }

  bool demand();
  void walk();
  double frequencyOf(const llvm::BasicBlock &BB) const;
  void expectFewCalls();
  State stateAt(llvm::BasicBlock &BB, bool WithBackEdges = false) const;
  bool waysBackHold() const;
  void walkBlock(llvm::BasicBlock &BB, State S);
  void passCall(const llvm::CallBase &Call, State &S);
  State unwound(const llvm::InvokeInst &Call, State S) const;
  void passReturn(llvm::Instruction &Return, State &S);
  void beforeLoops(llvm::BasicBlock &BB, State &S);
  bool mayPlaceBefore(const llvm::Instruction &I) const;
  bool tryPlace(llvm::Instruction *Before, State &S);
  void place(llvm::Instruction *Before, State &S);
  void restart(State &S);
  void closeLoops();
  void settle();
  double frequencyOfPoints() const;
  Choice choice() const;
  bool isBetterThan(const Choice &Other) const;
  void takeBack(const Choice &To);
  llvm::Instruction *placeBehindTests(const llvm::Loop &L) const;
  void preferBehindTests();
  void chargeRemainder();
  bool legal(const llvm::Instruction &I) const;
  bool mayPlaceIn(const llvm::BasicBlock &BB) const;
  llvm::Instruction *endOf(llvm::BasicBlock &BB) const;
  void findBracketed();
  void findLongCalls();

  llvm::Function &F;
  Analyses A;
  const Summaries &Known;
  const CallCycle &Cycle;
  const Options &Opts;
  const unsigned Bound, Quarter;
  bool Visible;        // may be called from where its summary is not seen
  bool Far;            // may return to there
  bool Placing = true; // false: only measure
  std::unique_ptr<ThreadLocalLiveness> Locals;

  llvm::SmallVector<llvm::BasicBlock *, 32> Order;
  llvm::DenseMap<const llvm::BasicBlock *, unsigned> Index;
  const llvm::SmallPtrSet<const llvm::BasicBlock *, 8> Cold;
  llvm::DenseMap<const llvm::Loop *, FreeLoop> Free;
  llvm::SmallSetVector<llvm::Instruction *, 8> Forced;
  // Headers of loops whose safepoint is neither there nor at the ends of the ways back.
  llvm::SmallPtrSet<const llvm::BasicBlock *, 4> Open;
  llvm::DenseMap<const llvm::Loop *, int> ChunkIndex;
  llvm::DenseMap<const llvm::BasicBlock *, double> Stalls; // by loop header
  llvm::DenseMap<const llvm::Loop *, double> Fewer; // iterations than LLVM expects: this part of them
  llvm::DenseMap<const llvm::BasicBlock *, State> Out, Previous; // of this walk, and the one before
  llvm::DenseMap<const llvm::BasicBlock *, State> Thrown;        // where the invoke at a block's end unwinds
  double ReturnFrequency = 0, ReturnMean = 0;
  Plan P;
  Summary Result;
};

} // namespace curtail
