// Names of functions and variables: those that the pass knows, and Rust's mangled ones, v0 and legacy, in one
// readable form.
#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace curtail {

// Whether a name is of a kind in crates/fiber/native/names.inc.
bool isListed(llvm::StringRef Kind, llvm::StringRef Name);

// The words behind a kind in that list, line by line.
void eachLine(llvm::StringRef Kind, llvm::function_ref<void(llvm::ArrayRef<llvm::StringRef> Words)> Do);

// `<a::b::Type<T> as c::Trait>::method`, without the hash; as it is where it is not mangled.
std::string readableName(llvm::StringRef Mangled);

// The crate (or C++ namespace) at the root of a mangled name's path: `curtail_fiber` for
// `<curtail_fiber::Stack as Drop>::drop`. Empty if the name is not mangled.
std::string rootOfPath(llvm::StringRef Mangled);

} // namespace curtail
