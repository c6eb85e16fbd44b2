// Code that must not yield although it calls what may: the depth is raised meanwhile.
#pragma once
#include "choose/place.h"
#include "guard/exclude.h"

namespace curtail {

// Raises the depth from entry to return of a function that has no safepoints of its own, if anything
// that it calls may have some. Returns whether it did. If an exception or longjmp leaves the function,
// the depth stays raised until the runtime resets it: the callers are allocators, signal handlers and
// static initialisers, which let no exception out.
bool shieldBody(llvm::Function &F, const Exclusions &Excluded, const Summaries &Known,
                const llvm::TargetLibraryInfo &TLI, llvm::GlobalVariable &Block);

// Raises the depth around calls of library functions that call back into the program while they hold
// a lock of the library's: destructors at exit, initialisers of loaded objects, C's call_once.
void bracketLibraryCallbacks(llvm::Function &F, llvm::GlobalVariable &Block);

} // namespace curtail
