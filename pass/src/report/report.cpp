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
                      {"skipped", nullptr}});
}

void Report::skipped(const Function &F, StringRef Why) {
  Functions++;
  Skipped++;
  tellOf(F, demangle(F.getName()), json::Object{{"safepoints", 0}, {"longest", nullptr}, {"skipped", Why}});
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
                   {"longest", int64_t(Longest)}});
  int File = open(Opts.Report.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  bool Written = File >= 0 && ::write(File, Lines.data(), Lines.size()) == ssize_t(Lines.size());
  int Error = errno;
  if (File >= 0)
    close(File);
  if (!Written)
    report_fatal_error(Twine("CURTAIL_PASS: report=") + Opts.Report + ": " + strerror(Error), false);
}

} // namespace curtail
