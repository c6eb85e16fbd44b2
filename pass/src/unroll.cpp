#include "unroll.h"
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

bool unrollLoops(Function &F, ArrayRef<TightLoop> Loops, FunctionAnalysisManager &FAM) {
  if (F.hasOptNone() || F.hasOptSize())
    return false;
  auto &LI = FAM.getResult<LoopAnalysis>(F);
  auto &SE = FAM.getResult<ScalarEvolutionAnalysis>(F);
  auto &DT = FAM.getResult<DominatorTreeAnalysis>(F);
  auto &AC = FAM.getResult<AssumptionAnalysis>(F);
  auto &TTI = FAM.getResult<TargetIRAnalysis>(F);
  auto &ORE = FAM.getResult<OptimizationRemarkEmitterAnalysis>(F);
  bool Changed = false;
  for (const TightLoop &Tight : Loops) {
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
    LoopUnrollResult Result =
        UnrollLoop(L, How, &LI, &SE, &DT, &AC, &TTI, &ORE, /*PreserveLCSSA=*/true);
    Changed |= Result != LoopUnrollResult::Unmodified;
    if (Result == LoopUnrollResult::PartiallyUnrolled)
      L->setLoopAlreadyUnrolled();
  }
  if (Changed)
    FAM.invalidate(F, PreservedAnalyses::none());
  return Changed;
}

} // namespace curtail
