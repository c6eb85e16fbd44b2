// Critical sections in emitted code: the depth in the thread-local block, and the yield that fell
// due inside.
#pragma once
#include "llvm/IR/DebugLoc.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Instructions.h"

namespace curtail {

// depth += By (i32).
void changeDepth(llvm::IRBuilder<> &B, llvm::GlobalVariable &Block, llvm::Value *By);
void changeDepthBefore(llvm::Instruction *Where, llvm::GlobalVariable &Block, int By,
                       const llvm::DebugLoc &Location);

// depth -= By (i32), but never below zero: a lock may be given back here that was taken where
// nothing was raised for it.
void lowerDepth(llvm::IRBuilder<> &B, llvm::GlobalVariable &Block, llvm::Value *By);

// Before `Where`: yields if the depth is zero and a yield fell due while it was not.
void yieldIfPending(llvm::Instruction *Where, llvm::GlobalVariable &Block,
                    const llvm::DebugLoc &Location);

} // namespace curtail
