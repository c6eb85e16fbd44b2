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
  // So many operations on locks were found.
  void locks(unsigned Count) { Locks += Count; }
  // A lock that may be held across a yield, or one that was not told for sure. A warning of the
  // compiler's or linker's, too.
  void lockWarning(const llvm::Function &F, const llvm::Instruction *I, llvm::StringRef What);
  // Code that may migrate, and a thread-local variable that is used across a safepoint or whose
  // address gets out of sight. A warning, or what the options say.
  void threadLocal(const llvm::Function &F, const llvm::Instruction &I, const llvm::GlobalValue &Of,
                   llvm::StringRef What);
  // Appends all lines to the report file in one write, so that the back ends of a parallel link or
  // build do not mix theirs. Ends the process with a message if that fails.
  void write();

  // File and line of an instruction; empty where they are not known.
  static std::string placeOf(const llvm::Instruction *I);

private:
  // Lines of the report: one on a function, one of any kind.
  void tellOf(const llvm::Function &F, llvm::StringRef Name, llvm::json::Object What);
  void add(llvm::json::Object What);
  std::string tell(const llvm::Function &F, const llvm::Instruction *I, const llvm::Twine &What, bool IsError);

  const llvm::Module &M;
  const Options &Opts;
  std::string Lines;
  unsigned Functions = 0, Instrumented = 0, Skipped = 0, Safepoints = 0, Longest = 0, Locks = 0, LockWarnings = 0,
           ThreadLocals = 0;
};

} // namespace curtail
