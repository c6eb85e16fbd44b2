#include "prepare/unroll.h"
#include "choose/loops.h"
#include "llvm/Analysis/AssumptionCache.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/OptimizationRemarkEmitter.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/Transforms/Utils/LoopSimplify.h"
#include "llvm/Transforms/Utils/LoopUtils.h"
#include "llvm/Transforms/Utils/UnrollLoop.h"

using namespace llvm;

namespace curtail {

// A tight loop is unrolled to about so much work.
static const unsigned UnrolledBody = 2 * MostTight, MostCopies = 4;

// Of a function with very many such loops the most frequent are: each costs time in proportion to the
// whole function.
static const unsigned MostUnrolled = 100;

namespace {
// A loop to be unrolled, and how often.
struct TightLoop {
  Loop *L;
  unsigned Count;
};
} // namespace

static SmallVector<TightLoop, 4> tightLoops(const Facts &F) {
  const Loops Known(F);
  SmallVector<TightLoop, 4> Tight;
  for (Loop *L : F.A.LI.getLoopsInPreorder()) {
    const Chunk *C = Known.chunkOf(L);
    bool Possible = L->isInnermost() && !Known.shortOf(L) && (!C || C->Gate);
    unsigned Iteration = Possible ? Known.longestIteration(*L, Possible) : 0;
    // Gated, it is to stay so.
    unsigned Body = C ? F.Bound / 2 / LeastPeriod : UnrolledBody;
    unsigned Copies = std::min(MostCopies, Body / std::max(Iteration, 1u));
    if (Possible && Iteration <= MostTight && Copies > 1)
      Tight.push_back({L, Copies});
  }
  stable_sort(Tight, [&](const TightLoop &L, const TightLoop &R) {
    return F.A.BFI.getBlockFreq(L.L->getHeader()) > F.A.BFI.getBlockFreq(R.L->getHeader());
  });
  Tight.truncate(std::min<size_t>(Tight.size(), MostUnrolled));
  return Tight;
}

bool unrollTightLoops(const Facts &Of, FunctionAnalysisManager &FAM) {
  Function &F = Of.F;
  if (F.hasOptNone() || F.hasOptSize() || Of.Opts.Safepoints == Kind::Reads)
    return false;
  const auto Found = tightLoops(Of);
  if (Found.empty())
    return false;
  auto &LI = FAM.getResult<LoopAnalysis>(F);
  auto &SE = FAM.getResult<ScalarEvolutionAnalysis>(F);
  auto &DT = FAM.getResult<DominatorTreeAnalysis>(F);
  auto &AC = FAM.getResult<AssumptionAnalysis>(F);
  auto &TTI = FAM.getResult<TargetIRAnalysis>(F);
  auto &ORE = FAM.getResult<OptimizationRemarkEmitterAnalysis>(F);
  bool Changed = false;
  for (const TightLoop &Tight : Found) {
    Loop *L = Tight.L;
    // What the program, or an earlier unrolling, says against it.
    if (hasUnrollTransformation(L) & TM_Disable)
      continue;
    Changed |= simplifyLoop(L, &DT, &LI, &SE, &AC, nullptr, /*PreserveLCSSA=*/false);
    Changed |= formLCSSARecursively(*L, DT, &LI, &SE);
    if (!L->isLoopSimplifyForm())
      continue;
    UnrollLoopOptions How{};
    How.Count = Tight.Count;
    How.Force = true;
    How.ForgetAllSCEV = true;
    LoopUnrollResult Result = UnrollLoop(L, How, &LI, &SE, &DT, &AC, &TTI, &ORE, /*PreserveLCSSA=*/true);
    Changed |= Result != LoopUnrollResult::Unmodified;
    if (Result == LoopUnrollResult::PartiallyUnrolled)
      L->setLoopAlreadyUnrolled();
  }
  if (Changed)
    FAM.invalidate(F, PreservedAnalyses::none());
  return Changed;
}

} // namespace curtail
