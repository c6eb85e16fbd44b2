#include "choose/cycle.h"
#include "facts/coldcalls.h"
#include "llvm/Analysis/CFG.h"
#include "llvm/IR/InstIterator.h"

using namespace llvm;

namespace curtail {

// Larger cycles are no trees, but programs that call one another back.
static const size_t MostMembers = 8;

// A function that calls members in more places than this is taken to do so more than once.
static const size_t MostCalls = 16;

static SmallVector<const CallBase *, 8> callsInto(const Functions &Members, const Function &F) {
  SmallVector<const CallBase *, 8> Calls;
  const auto Dead = deadEnds(F);
  for (const Instruction &I : instructions(F))
    if (auto *Call = dyn_cast<CallBase>(&I);
        Call && Members.contains(Call->getCalledFunction()) && !Dead.contains(I.getParent()))
      Calls.push_back(Call);
  return Calls;
}

bool mayBranch(ArrayRef<Function *> Order, const Functions &Members, function_ref<Analyses(Function &)> Of) {
  if (Members.size() > MostMembers)
    return false;
  for (Function *F : Order) {
    const auto Into = callsInto(Members, *F);
    if (Into.empty())
      continue;
    if (Into.size() > MostCalls)
      return true;
    const Analyses A = Of(*F);
    for (const CallBase *First : Into)
      for (const CallBase *Next : Into)
        if (First == Next ? A.LI.getLoopFor(First->getParent()) != nullptr
                          : isPotentiallyReachable(First, Next, nullptr, &A.DT, &A.LI))
          return true;
  }
  return false;
}

static SmallVector<Planned, 1> planAll(ArrayRef<Function *> Order, const CallCycle &Cycle, const Functions &Far,
                                       function_ref<Analyses(Function &)> Of, Summaries &Known) {
  SmallVector<Planned, 1> All;
  for (Function *F : Order)
    Known.erase(F);
  for (Function *F : Order) {
    All.push_back({F, plan(Facts(*F, Of(*F), Known, Cycle, Far, options()))});
    if (!F->isInterposable())
      Known[F] = All.back().P.S;
  }
  return All;
}

SmallVector<Planned, 1> planTogether(ArrayRef<Function *> Order, CallCycle Cycle, const Functions &Far,
                                     function_ref<Analyses(Function &)> Of, Summaries &Known) {
  auto All = planAll(Order, Cycle, Far, Of, Known);
  auto IsLonger = [&](const Planned &Each) {
    return Cycle.continues(Each.F) && Each.P.S.Through && Each.P.S.ThroughMax > Cycle.Through;
  };
  if (none_of(All, IsLonger))
    return All;
  Cycle.Through = options().Bound / 4;
  return planAll(Order, Cycle, Far, Of, Known);
}

} // namespace curtail
