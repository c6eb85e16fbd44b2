// What comes of a choice of safepoints: a walk along all paths of a function, in reverse post-order, which places
// what the bound demands beside those chosen and works out what each charges. A function of facts, loops and
// choice alone.
//
// The promise: no path between two safepoints is longer than the bound. Two figures travel along the paths:
// `Longest`, the longest distance since a safepoint, on which placement decides, and `Mean`, the work that is
// expected since the last charge, which a safepoint of kind clock subtracts from the budget. Calls reset the first
// (the callee has safepoints of its own) but not the second (a callee charges only for itself).
//
// Functions that are called from where this module cannot see (other modules, pointers) keep a convention: at most a
// quarter of the bound lies before their first safepoint and after their last, and if they have none, between entry
// and exit. Callers that see a callee use its summary.
#pragma once
#include "choose/loops.h"

namespace curtail {

struct Point {
  llvm::Instruction *Before;
  double Mean;  // work to charge
};

struct Walked {
  llvm::SmallVector<Point, 8> Points;
  // By chunk: its `Mean` and `Before`.
  llvm::SmallVector<std::pair<double, double>, 4> Chunks;
  unsigned Longest = 0;
  Summary S;

  double frequency(const Facts &F) const;
};

// Without `Placing` nothing is placed: it only measures.
Walked walk(const Facts &F, const Loops &L, const Choice &C, bool Placing = true);

// Whether the walk may place a safepoint there.
bool mayPlaceBefore(const Facts &F, const Loops &L, const llvm::Instruction &I);

} // namespace curtail
