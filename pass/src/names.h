// Rust's mangled names, v0 and legacy, in one readable form.
#pragma once
#include "llvm/ADT/StringRef.h"
#include <string>

namespace curtail {

// `<a::b::Type<T> as c::Trait>::method`, without the hash; as it is where it is not mangled.
std::string readableName(llvm::StringRef Mangled);

// The crate (or C++ namespace) at the root of a mangled name's path: `curtail_fiber` for
// `<curtail_fiber::Stack as Drop>::drop`. Empty if the name is not mangled.
std::string rootOfPath(llvm::StringRef Mangled);

} // namespace curtail
