// Thread-local addresses that the optimiser holds longer than the program does.
//
// A thread-local's address is the same wherever a function asks for it, so the optimiser asks once,
// before all loops: a function that makes a hash map in each round of a loop would hold the address of
// std's hash keys in all of them, and never be pre-empted. Where no code can be surprised by what
// others do to the variable meanwhile, its address is taken anew in each block that uses it.
#pragma once
#include "llvm/IR/PassManager.h"

namespace llvm {
class GlobalValue;
class Module;
class StoreInst;
} // namespace llvm

namespace curtail {

// Is it LocalKey::with or its kind? Rust reaches its thread-locals through closures, and these hold
// the address while such a closure runs.
bool holdsThreadLocal(llvm::StringRef Mangled);

// Early, where C and C++ are compiled: notes what names its thread-local variable itself, with no pointer
// in between, so that no code holds an address for it.
bool noteNames(llvm::Module &M);
bool namesItsVariable(const llvm::StoreInst &Store);

// Is it one of the variables in which std::call_once hands its argument to the routine of
// pthread_once, which reads them?
bool isOnceArgument(const llvm::GlobalValue &Variable);

// Is it one whose changes are complete in themselves, and may be lost?
bool isIndifferent(const llvm::GlobalValue &Variable);

// Of variables that the function reads, and writes by name if at all; of those of the standard libraries whose changes are complete in themselves; and of
// Rust's other ones, once for each call that holds it (LocalKey::with). Not in code that may go on on
// another thread: what code generation makes of two addresses there is not known. Returns whether
// anything changed.
bool retakeThreadLocals(llvm::Function &F, llvm::FunctionAnalysisManager &FAM);

} // namespace curtail
