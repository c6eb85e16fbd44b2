// Puts a Plan into a function: safepoints in emit.cpp, chunked loops in cut.cpp,
// long library calls in longcalls.cpp.
#pragma once
#include "emit/emit.h"
#include "guard/critical.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Instructions.h"

namespace curtail {

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
    llvm::Value *Taken = nullptr; // i64: iterations to come after the first
    llvm::Value *Work = nullptr;  // i64: of one iteration
    llvm::Value *Total = nullptr; // i64: of all
    llvm::Value *Start = nullptr; // of the counter: at the first latch
  };

  void emitPoint(const Point &Safepoint);
  void emitLongCall(const LongCall &Long);
  llvm::Value *callRuntime(llvm::IRBuilder<> &B, const LongCall &Long);
  static llvm::Instruction *coldBranch(llvm::Value *Due, llvm::Instruction *Before);
  void slowIf(llvm::Value *Due, llvm::Instruction *Before);
  llvm::Value *loadBudget(llvm::IRBuilder<> &B);
  void storeBudget(llvm::IRBuilder<> &B, llvm::Value *Budget);
  llvm::Value *spend(llvm::IRBuilder<> &B, uint64_t Units);
  llvm::Value *polled(llvm::IRBuilder<> &B);
  llvm::Value *clockDue(llvm::IRBuilder<> &B);
  static uint64_t inUnits(double Work);

  void prepare(const Chunk &C);
  void cutLoop(const Chunk &C, const Prepared &R);
  void gateLoop(const Chunk &C, const Prepared &R);
  void enterLoop(const Chunk &C, const Prepared &R, llvm::BasicBlock *Before, llvm::BasicBlock *Undo,
                 llvm::BasicBlock *Next);
  llvm::Value *keptFor(llvm::Value *V, llvm::Instruction *Here) const;

  llvm::Function &F;
  const Plan &P;
  llvm::GlobalVariable &Block;
  const Options &Opts;
  llvm::ScalarEvolution &SE;
  const SlowPath Slow;
  // One per chunked loop.
  llvm::SmallVector<Prepared, 4> Ready;
};

} // namespace curtail
