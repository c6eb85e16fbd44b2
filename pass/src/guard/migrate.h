// Thread-local variables in code that may go on on another thread (--migratable).
//
// Where an address of one is live, nothing yields (tls.h). That is enough as long as a fiber stays on
// its thread. One that migrates may find another thread's variable behind a safepoint: so a variable
// that is used both before and after one is reported, and an address that gets out of sight.
#pragma once
#include "choose/place.h"
#include "report/report.h"

namespace curtail {

// Before the plan is carried out.
void reportThreadLocals(llvm::Function &F, const Plan &P, const Summaries &Known, const llvm::TargetLibraryInfo &TLI,
                        Report &R);

} // namespace curtail
