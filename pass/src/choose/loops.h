// The loops of a function that need no safepoint of their own: what is short (short.cpp), what is cut into chunks
// or gated (chunk.cpp). And the nests in which the budget lives in a register (nests.cpp). All follow from the
// facts alone.
#pragma once
#include "choose/choice.h"
#include "facts/facts.h"

namespace curtail {

struct LongCall;

// Work of a loop's iteration up to which it is unrolled, or gated, or both.
const unsigned MostTight = 24;

// A gate that is passed more often saves nothing over a safepoint: each time may be a surprise to the
// branch predictor.
const unsigned LeastPeriod = 8;

// Work that a chunked loop may leave to the loop around it, as part of the bound.
inline unsigned absorbed(const Options &O) { return O.Bound / 2; }

// A loop without a safepoint on its way back.
struct ShortLoop {
  llvm::Loop *L;
  unsigned Trips;     // at most
  unsigned Iteration; // longest path
  bool Exact;
  unsigned Length;    // of all iterations
  // With calls that may yield, all this is between them, and:
  bool Calls = false;
  unsigned After = 0; // the longest path since such a call at the end of its iteration
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
  int Parent = -1;                       // the chunked loop around it that charges for it if it is short
  bool Unchecked = false;                // if it is short, a safepoint of the loop around it looks
  int Nest = -1;                         // index into the nests
  // A phi of the header that counts along, and how far the latch's counter is ahead of it.
  llvm::PHINode *Index = nullptr;
  llvm::APInt Ahead;
  bool Copied = false;                   // cut is a copy: what fits runs through the loop as it was
  // Found by the walk: work of an iteration that nothing else charges, and on the way to the loop.
  double Mean = 1, Before = 0;
  // Whether it looks at the budget whenever it is entered.
  bool isSelf() const { return Whole && Parent < 0 && !Unchecked; }
};

class Loops {
public:
  // Short loops and chunks.
  explicit Loops(const Facts &F);
  void chooseNests();
  void findStalls();
  // Of which loops a copy is cut.
  void chooseCopies(llvm::ArrayRef<LongCall> LongCalls);

  const ShortLoop *shortOf(const llvm::Loop *L) const;
  const Chunk *chunkOf(const llvm::Loop *L) const;
  // The chunked loop that begins with this block.
  const Chunk *headOfChunk(const llvm::BasicBlock *BB) const;
  // Index of the nest that a block is in, or -1.
  int nestOf(const llvm::BasicBlock *BB) const;
  // The longest path through an iteration. Not `Possible` where that may yield, or be longer than the bound.
  unsigned longestIteration(const llvm::Loop &L, bool &Possible, bool PastGates = false) const;

  llvm::SmallVector<ShortLoop, 4> Short;
  llvm::SmallVector<Chunk, 4> Chunks; // inner ones before outer ones
  llvm::SmallVector<llvm::Loop *, 4> Nests;
  llvm::DenseMap<const llvm::BasicBlock *, double> Stalls; // by header
  Choice Asked; // by short loops: safepoints at their calls

private:
  void findShort();
  bool tryShort(llvm::Loop &L);
  bool shortBetweenCalls(llvm::Loop &L, bool Before);
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
  bool invariantIn(int At, const llvm::Loop &Around) const;
  int indexOf(const llvm::Loop *L) const;
  bool nestPossible(const llvm::Loop &L) const;
  bool worthRegister(const llvm::Loop &L) const;

  const Facts &F;
  const Analyses &A;
  const Options &Opts;
  const unsigned Bound, Quarter;
  llvm::DenseMap<const llvm::Loop *, unsigned> ShortIndex, ChunkIndex;
};

} // namespace curtail
