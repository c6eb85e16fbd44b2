// Where the safepoints of a recursion go.
//
// Without a better idea, each function of a cycle of calls has one on its way to the others, behind the test that
// ends the recursion, and one in each loop around such calls. Some may have one at their entry instead: a call of
// these is as good as a safepoint, for all that call them. That is better where calls are in loops (a node's
// children), or where the cycle leads through many functions (the levels of a parser); worse where most
// activations end at once. Estimates decide.
#include "cycle.h"
#include "coldcalls.h"
#include "tls.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Analysis/CFG.h"
#include "llvm/IR/InstIterator.h"

using namespace llvm;

namespace curtail {

// Each function of a cycle is tried at each step, and for each all are planned.
static const size_t MostMembers = 8, MostInstructions = 4096;

// Who calls members in more places than this is taken to do so more than once.
static const size_t MostCalls = 16;

// Each replanning finds longer ways, or ends; this often they are taken as they are found.
static const unsigned MostRounds = 3;

// Frequencies are estimates: something is better by so much, or not at all.
static const double MuchBetter = 0.8;

namespace {
class CyclePlanner {
public:
  using Plans = SmallVector<Planned, 1>;
  CyclePlanner(ArrayRef<Function *> Order, const CallCycle &Whole, const Functions &Far,
               function_ref<Analyses(Function &)> Of, Summaries &Known)
      : Order(Order), Whole(Whole), Far(Far), Of(Of), Known(Known) {}
  Plans plan();

private:
  bool mayChoose() const;
  void findCalls();
  SmallVector<CallCycle, 4> cyclesWith(const Functions &First) const;
  void reachFrom(const Function &F, const Functions &First, Functions &Reached) const;
  bool planWith(const Functions &First, Plans &All);
  bool raise(MutableArrayRef<CallCycle> Cycles, bool ToMost) const;
  void planOne(Function &F, const CallCycle &Cycle, Plans &All);
  double costOf(ArrayRef<Planned> All) const;

  ArrayRef<Function *> Order;
  const CallCycle &Whole;
  const Functions &Far;
  function_ref<Analyses(Function &)> Of;
  Summaries &Known;
  // How often each member calls others, and how often they are called, by estimate.
  MapVector<Function *, MapVector<Function *, double>> Calls;
  MapVector<Function *, double> Activations;
};
} // namespace

static SmallVector<const CallBase *, 8> callsInto(const Functions &Members, const Function &F) {
  SmallVector<const CallBase *, 8> Calls;
  const auto Dead = deadEnds(F);
  for (const Instruction &I : instructions(F))
    if (auto *Call = dyn_cast<CallBase>(&I);
        Call && Members.contains(Call->getCalledFunction()) && !Dead.contains(I.getParent()))
      Calls.push_back(Call);
  return Calls;
}

// Whether there is a choice, and it is not too much work.
bool CyclePlanner::mayChoose() const {
  size_t Instructions = 0;
  for (const Function *F : Order) {
    Instructions += F->getInstructionCount();
    if (F->isInterposable())
      return false;
  }
  return !Whole.Members.empty() && Whole.Members.size() == Order.size() && Order.size() <= MostMembers &&
         Instructions <= MostInstructions;
}

// The activations are what calls in these proportions come to, after some rounds from one of each.
void CyclePlanner::findCalls() {
  for (Function *F : Order) {
    Placer Place(*F, Of(*F), Known, Whole, Far, options());
    Activations[F] = 1;
    for (const CallBase *Call : callsInto(Whole.Members, *F))
      Calls[F][Call->getCalledFunction()] += Place.timesIn(*Call->getParent());
  }
  for (unsigned Round = 0; Round < 32; Round++) {
    auto Next = Activations;
    double Sum = 0;
    for (const auto &[F, Callees] : Calls)
      for (const auto &[Callee, Times] : Callees)
        Next[Callee] += Times * Activations.lookup(F);
    for (const auto &[F, Times] : Next)
      Sum += Times;
    for (const auto &[F, Times] : Next)
      Activations[F] = Times / Sum;
  }
}

void CyclePlanner::reachFrom(const Function &F, const Functions &First, Functions &Reached) const {
  auto Callees = Calls.find(const_cast<Function *>(&F));
  if (Callees == Calls.end())
    return;
  for (const auto &[Callee, Times] : Callees->second)
    if (!First.contains(Callee) && Reached.insert(Callee).second)
      reachFrom(*Callee, First, Reached);
}

// Of each member, in their order, what is left of the cycle.
SmallVector<CallCycle, 4> CyclePlanner::cyclesWith(const Functions &First) const {
  SmallVector<Functions, 4> Reached(Order.size());
  SmallVector<CallCycle, 4> Cycles;
  for (auto [F, Into] : zip(Order, Reached))
    reachFrom(*F, First, Into);
  for (auto [F, From] : zip(Order, Reached)) {
    CallCycle Cycle = {Whole.Members, First, {}, Whole.Branches};
    for (auto [Other, Back] : zip(Order, Reached))
      if (From.contains(Other) && Back.contains(F))
        Cycle.Left.insert(Other);
    Cycles.push_back(std::move(Cycle));
  }
  return Cycles;
}

// Whether there were longer ways through those left in cycles than was assumed when they were planned; from now on
// no longer, or no longer ones are possible.
bool CyclePlanner::raise(MutableArrayRef<CallCycle> Cycles, bool ToMost) const {
  bool Raised = false;
  for (auto [F, Cycle] : zip(Order, Cycles)) {
    const Summary S = Known.lookup(F);
    const unsigned Assumed = std::max(UsualThrough, Cycle.Through.lookup(F));
    if (!Cycle.continues(F) || !S.Through || S.ThroughMax <= Assumed || Assumed >= options().Bound / 4)
      continue;
    Raised = true;
    for (CallCycle &Other : Cycles)
      Other.Through[F] = ToMost ? options().Bound / 4 : S.ThroughMax;
  }
  return Raised;
}

void CyclePlanner::planOne(Function &F, const CallCycle &Cycle, Plans &All) {
  Placer Place(F, Of(F), Known, Cycle, Far, options());
  Plan P = Place.plan();
  All.push_back({&F, std::move(P), Place.summary()});
  if (!F.isInterposable())
    Known[&F] = Place.summary();
}

// Plans all, what is called before what calls it as far as possible, until what was assumed of the others holds.
// Whether those that were to have a safepoint at their entry could have it.
bool CyclePlanner::planWith(const Functions &First, Plans &All) {
  auto Cycles = cyclesWith(First);
  SmallVector<size_t, 4> Places(Order.size());
  SmallVector<size_t, 4> Below(Order.size());
  for (auto [At, F] : enumerate(Order)) {
    Functions Reached;
    reachFrom(*F, First, Reached);
    Places[At] = At;
    Below[At] = Reached.size();
  }
  stable_sort(Places, [&](size_t L, size_t R) { return Below[L] < Below[R]; });
  for (unsigned Round = 0; Round == 0 || raise(Cycles, Round >= MostRounds); Round++) {
    All.clear();
    for (Function *F : Order)
      Known.erase(F);
    for (size_t At : Places)
      planOne(*Order[At], Cycles[At], All);
  }
  return none_of(First, [&](const Function *F) { return Known.lookup(F).Through; });
}

double CyclePlanner::costOf(ArrayRef<Planned> All) const {
  double Cost = 0;
  for (const Planned &Each : All)
    Cost += Each.P.Frequency * Activations.lookup(Each.F);
  return Cost;
}

CyclePlanner::Plans CyclePlanner::plan() {
  Plans Best;
  if (!mayChoose()) {
    for (Function *F : Order)
      planOne(*F, Whole, Best);
    return Best;
  }
  findCalls();
  Functions First;
  planWith(First, Best);
  for (Function *Next = nullptr;;) {
    double Cost = MuchBetter * costOf(Best);
    for (Function *F : Order) {
      Functions More = First;
      Plans All;
      if (!More.insert(F).second || !planWith(More, All) || costOf(All) >= Cost)
        continue;
      Cost = costOf(All);
      Best = std::move(All);
      Next = F;
    }
    if (!Next)
      break;
    First.insert(Next);
    Next = nullptr;
  }
  for (const Planned &Each : Best)
    Known[Each.F] = Each.S;
  return Best;
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

SmallVector<Planned, 1> planTogether(ArrayRef<Function *> Order, const CallCycle &Whole, const Functions &Far,
                                     function_ref<Analyses(Function &)> Of, Summaries &Known) {
  return CyclePlanner(Order, Whole, Far, Of, Known).plan();
}

} // namespace curtail
