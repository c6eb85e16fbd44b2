// What was done to each function, as JSON lines: one a function, one summary a module.
#pragma once
#include "options.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/JSON.h"

namespace curtail {

class Report {
public:
  Report(const llvm::Module &M, const Options &O) : M(M), Opts(O) {}
  void instrumented(const llvm::Function &F, const struct Plan &P);
  void skipped(const llvm::Function &F, llvm::StringRef Why);
  // Appends all lines to the report file in one write, so that the back ends of a parallel link or
  // build do not mix theirs. Ends the process with a message if that fails.
  void write();

private:
  // Lines of the report: one on a function, one of any kind.
  void tellOf(const llvm::Function &F, llvm::StringRef Name, llvm::json::Object What);
  void add(llvm::json::Object What);

  const llvm::Module &M;
  const Options &Opts;
  std::string Lines;
  unsigned Functions = 0, Instrumented = 0, Skipped = 0, Safepoints = 0, Longest = 0;
};

} // namespace curtail
