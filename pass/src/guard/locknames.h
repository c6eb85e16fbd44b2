// The locks of Rust's standard library and of parking_lot, by the names of their functions.
#pragma once
#include "llvm/ADT/StringRef.h"

namespace curtail {

enum class LockRole {
  None,
  Take,  // takes the lock, or tries: it does if it returns nothing, or true
  Give,  // gives the lock back
  Wake,  // wakes a waiter for a lock that was just given back
  Within, // others may wait for a part of what it does: an initialiser, a queue of waiters
  Other, // uses a lock in a way of its own: what it does with it does not count
};

// What the function of this mangled name (Rust's v0 or legacy) does. All but None are parts of a
// lock: never pre-empted, and what they do inside does not count.
LockRole lockRole(llvm::StringRef Mangled);

} // namespace curtail
