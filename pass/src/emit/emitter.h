// Puts a Plan into a function: safepoints and register budgets in emit.cpp, chunked loops in cut.cpp,
// long library calls in longcalls.cpp.
#pragma once
#include "emit/emit.h"
#include "guard/critical.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Instructions.h"

namespace curtail {

// A block whose paths all end in `unreachable`: what the budget is there does not matter.
bool leadsNowhere(const llvm::BasicBlock *BB);

class Emitter {
public:
  Emitter(llvm::Function &F, const Plan &P, llvm::GlobalVariable &Block, const Options &O, const Analyses &A);
  void run();

private:
  // Inserts before one instruction, with the location of another.
  struct Builder : llvm::IRBuilder<> {
    Builder(llvm::Instruction *Before, const llvm::Instruction *Source);
  };
  // What a chunked loop needs to know of itself at run time.
  struct Prepared {
    llvm::BranchInst *Latch;
    llvm::Value *Taken;           // i64: iterations to come after the first
    llvm::Value *Work;            // i64: of one iteration, adopted loops included
    llvm::Value *Total;           // i64: of all
    llvm::Value *Long = nullptr;  // i1: too long to be left to the loop around
    llvm::Value *Rest = nullptr;  // i64: of a stepped loop, iterations behind the first step
    llvm::Value *Start, *Last;    // of the counter: at the first latch, at the first step's last
  };

  void enterNest(unsigned Nest);
  void emitPoint(const Point &Safepoint);
  void emitLongCall(const LongCall &Long);
  llvm::Value *callRuntime(llvm::IRBuilder<> &B, const LongCall &Long);
  llvm::Instruction *coldBranch(llvm::Value *Due, llvm::Instruction *Before);
  void slowIf(llvm::Value *Due, llvm::Instruction *Before, int Nest);
  llvm::Value *field(llvm::IRBuilder<> &B, uint64_t Offset);
  llvm::Value *loadBudget(llvm::IRBuilder<> &B, int Nest);
  void storeBudget(llvm::IRBuilder<> &B, llvm::Value *Budget, int Nest);
  llvm::Value *charge(llvm::IRBuilder<> &B, llvm::Value *Work, int Nest);
  llvm::Value *spend(llvm::IRBuilder<> &B, uint64_t Units);
  llvm::Value *polled(llvm::IRBuilder<> &B);
  llvm::Value *clockDue(llvm::IRBuilder<> &B);
  static uint64_t inUnits(double Work);

  void prepareChunks();
  void prepare(unsigned At);
  llvm::Value *totalOf(Builder &B, const Chunk &C, const Prepared &R);
  void cutLoop(unsigned At);
  void gateLoop(const Chunk &C, const Prepared &R);
  struct Cut;
  llvm::BasicBlock *entryOf(const Chunk &C, llvm::BasicBlock *Before);
  void enterLoop(Cut &X);
  void nextChunk(Cut &X);
  llvm::Value *keptFor(llvm::Value *V, llvm::Instruction *Here) const;
  llvm::Instruction *outermost(llvm::ArrayRef<const llvm::SCEV *> Values, const llvm::Loop *L);
  llvm::Value *advance(llvm::IRBuilder<> &B, llvm::Value *Counter, llvm::Value *Times, const Chunk &C);

  llvm::Function &F;
  const Plan &P;
  llvm::GlobalVariable &Block;
  const Options &Opts;
  llvm::ScalarEvolution &SE;
  const SlowPath Slow;
  // One per nest: the budget while in it. Becomes a register at the end.
  llvm::SmallVector<llvm::AllocaInst *, 4> Budgets;
  // One per chunked loop.
  llvm::SmallVector<Prepared, 4> Ready;
};

} // namespace curtail
