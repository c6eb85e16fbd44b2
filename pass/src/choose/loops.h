// The loops of a function that need no safepoint of their own: what is short (short.cpp), what is cut into chunks
// or gated (chunk.cpp). All follow from the facts alone.
#pragma once
#include "choose/choice.h"
#include "facts/facts.h"

namespace curtail {

// Work of a loop's iteration up to which it is unrolled, or gated, or both.
const unsigned MostTight = 24;

// A gate that is passed more often saves nothing over a safepoint: each time may be a surprise to the
// branch predictor.
const unsigned LeastPeriod = 8;

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

// A loop that is cut into chunks, or gated, so that nothing is added to its body; see chunk.cpp.
struct Chunk {
  llvm::Loop *L;
  llvm::BasicBlock *Preheader, *Header, *Latch;
  unsigned Iteration = 0;              // longest path through the body
  const llvm::SCEV *Step = nullptr;    // of the counter
  // Gated: what says, modulo a power of two, when to look; and how many iterations that is.
  llvm::Instruction *Gate = nullptr;
  unsigned Stride = 0;
  // Cut: what the latch compares, an affine recurrence of the loop; its value at the first latch; how often the
  // back edge is taken, which is iterations less one.
  llvm::Instruction *Counter = nullptr;
  const llvm::SCEV *Start = nullptr, *Taken = nullptr;
  // Found by the walk: work of an iteration that nothing else charges, and on the way to the loop.
  double Mean = 1, Before = 0;
};

class Loops {
public:
  explicit Loops(const Facts &F);

  const ShortLoop *shortOf(const llvm::Loop *L) const;
  const Chunk *chunkOf(const llvm::Loop *L) const;
  // The chunked loop that begins with this block.
  const Chunk *headOfChunk(const llvm::BasicBlock *BB) const;
  // The longest path through an iteration. Not `Possible` where that may yield, or be longer than the bound.
  unsigned longestIteration(const llvm::Loop &L, bool &Possible) const;

  llvm::SmallVector<ShortLoop, 4> Short;
  llvm::SmallVector<Chunk, 4> Chunks; // inner ones before outer ones
  Choice Asked; // by short loops: safepoints at their calls

private:
  void findShort();
  bool tryShort(llvm::Loop &L);
  bool shortBetweenCalls(llvm::Loop &L, bool Before);
  bool tryChunk(llvm::Loop &L);
  bool tryGate(llvm::Loop &L);
  bool chooseGate(llvm::Loop &L, Chunk &C) const;
  bool shapeOf(llvm::Loop &L, Chunk &C) const;
  bool describe(llvm::Loop &L, Chunk &C) const;
  bool mayCopy(const llvm::Loop &L) const;

  const Facts &F;
  const Analyses &A;
  const unsigned Bound;
  llvm::DenseMap<const llvm::Loop *, unsigned> ShortIndex, ChunkIndex;
};

} // namespace curtail
