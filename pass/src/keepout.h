// Lists of functions that get no safepoint: names and globs, mangled or readable.
#pragma once
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/GlobPattern.h"
#include <memory>
#include <vector>

namespace llvm {
class Instruction;
class MemoryBuffer;
} // namespace llvm

namespace curtail {

class KeepOutList {
public:
  // Adds what a file says: one name or glob a line, # begins a comment. An error names the line.
  llvm::Error read(llvm::StringRef File);
  // Is a function on the list, by its mangled name or by either of its readable ones?
  bool contains(llvm::StringRef Mangled) const;
  // Was the instruction inlined from a function on the list? Line tables tell.
  bool containsPlace(const llvm::Instruction &I) const;
  bool empty() const { return Globs.empty(); }

private:
  // Both point into a file's text.
  struct Entry {
    llvm::StringRef Text;
    llvm::GlobPattern Glob;
  };
  std::vector<Entry> Globs;
  std::vector<std::shared_ptr<llvm::MemoryBuffer>> Files;
};

} // namespace curtail
