// Critical sections in emitted code: the depth in the thread-local block, and the yield that fell
// due inside. And the call of the slow path, which yields.
#pragma once
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/DebugLoc.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Instructions.h"

namespace curtail {

// How a function has to call the slow path.
struct SlowPath {
  bool X87;    // the x87 stack is in use
  bool Narrow; // of the vector registers, only xmm0-15 are
};
SlowPath slowPathFrom(const llvm::Function &F, const llvm::TargetTransformInfo &TTI);

// Inline assembly that has effects and does not unwind. `Clobbers`: what is lost where it computes or calls.
extern const char Clobbers[];
llvm::CallInst *assembly(llvm::IRBuilder<> &B, llvm::Type *Result, llvm::StringRef Code, const llvm::Twine &Constraints,
                         llvm::ArrayRef<llvm::Value *> Operands = {});

// An inline call: to the compiler it clobbers nothing (the stub saves all), so that the code around
// it keeps its registers, and a leaf function stays one.
void callSlow(llvm::IRBuilder<> &B, llvm::GlobalVariable &Block, SlowPath How);

// The address of a field of the thread-local block. Taken anew each time: that makes it part of the instruction
// that uses it.
llvm::Value *field(llvm::IRBuilder<> &B, llvm::GlobalVariable &Block, uint64_t Offset);

// A block that is run before `Before` if `Due`, which is rare: its end.
llvm::Instruction *rarelyBefore(llvm::Instruction *Before, llvm::Value *Due, const llvm::DebugLoc &Location);

// depth += By (i32).
void changeDepth(llvm::IRBuilder<> &B, llvm::GlobalVariable &Block, llvm::Value *By);
void changeDepthBefore(llvm::Instruction *Where, llvm::GlobalVariable &Block, int By, const llvm::DebugLoc &Location);

} // namespace curtail
