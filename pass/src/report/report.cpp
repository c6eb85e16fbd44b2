#include "report/report.h"
#include "choose/place.h"
#include "names.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include <fcntl.h>
#include <unistd.h>

using namespace llvm;

namespace curtail {

void Report::tellOf(const Function &F, StringRef Name, json::Object What) {
  if (Opts.Report.empty())
    return;
  What["function"] = F.getName();
  What["name"] = Name;
  add(std::move(What));
}

void Report::add(json::Object What) {
  What["module"] = M.getModuleIdentifier();
  raw_string_ostream(Lines) << json::Value(std::move(What)) << '\n';
}

std::string Report::placeOf(const Instruction *I) {
  const DILocation *At = I ? I->getDebugLoc().get() : nullptr;
  return At ? (At->getFilename() + ":" + Twine(At->getLine())).str() : "";
}

void Report::instrumented(const Function &F, const Plan &P) {
  Functions++;
  Instrumented++;
  Safepoints += P.Points.size();
  Longest = std::max(Longest, P.Longest);
  tellOf(F, demangle(F.getName()),
         json::Object{{"safepoints", int64_t(P.Points.size())},
                      {"chunked", int64_t(P.Chunks.size())},
                      {"long_calls", int64_t(P.LongCalls.size())},
                      {"longest", int64_t(P.Longest)},
                      {"thread_local_calls", int64_t(P.Bracketed.size())},
                      {"thread_local_loops", int64_t(P.LoopsWithout)},
                      {"skipped", nullptr}});
}

void Report::skipped(const Function &F, StringRef Why) {
  Functions++;
  Skipped++;
  tellOf(F, demangle(F.getName()), json::Object{{"safepoints", 0}, {"longest", nullptr}, {"skipped", Why}});
}

// A message of the compiler or linker. Returns the place.
std::string Report::tell(const Function &F, const Instruction *I, const Twine &What, bool IsError) {
  std::string Place = placeOf(I);
  std::string Text = "curtail: " + readableName(F.getName()) + (Place.empty() ? "" : " (" + Place + ")") + ": ";
  DiagnosticSeverity Severity = IsError ? DS_Error : DS_Warning;
  F.getContext().diagnose(DiagnosticInfoGeneric(Text + What, Severity));
  return Place;
}

void Report::lockWarning(const Function &F, const Instruction *I, StringRef What) {
  LockWarnings++;
  tellOf(F, readableName(F.getName()),
         json::Object{{"lock_warning", What}, {"at", tell(F, I, What, /*IsError=*/false)}});
}

void Report::threadLocal(const Function &F, const Instruction &I, const GlobalValue &Of, StringRef What) {
  ThreadLocals++;
  std::string Variable = readableName(Of.getName());
  std::string Place = tell(F, &I, "thread-local " + Twine(Variable) + ": " + What, Opts.Migratable == Migration::Error);
  tellOf(F, readableName(F.getName()),
         json::Object{{"thread_local", Variable}, {"thread_local_warning", What}, {"at", Place}});
}

void Report::write() {
  if (Opts.Report.empty())
    return;
  add(json::Object{{"summary", true},
                   {"bound", int64_t(Opts.Bound)},
                   {"functions", int64_t(Functions)},
                   {"instrumented", int64_t(Instrumented)},
                   {"skipped", int64_t(Skipped)},
                   {"safepoints", int64_t(Safepoints)},
                   {"longest", int64_t(Longest)},
                   {"locks", int64_t(Locks)},
                   {"lock_warnings", int64_t(LockWarnings)},
                   {"thread_local_warnings", int64_t(ThreadLocals)}});
  int File = open(Opts.Report.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  bool Written = File >= 0 && ::write(File, Lines.data(), Lines.size()) == ssize_t(Lines.size());
  int Error = errno;
  if (File >= 0)
    close(File);
  if (!Written)
    report_fatal_error(Twine("CURTAIL_PASS: report=") + Opts.Report + ": " + strerror(Error), false);
}

} // namespace curtail
