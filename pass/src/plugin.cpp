// The plugin's entry: `curtail-safepoints`, a module pass that runs last in the optimiser, at
// compile time or (for bitcode) at link time, never twice over a function.
#include "choose/place.h"
#include "emit/emit.h"
#include "emit/notes.h"
#include "facts/coldcalls.h"
#include "facts/cost.h"
#include "guard/bracket.h"
#include "guard/exclude.h"
#include "guard/shield.h"
#include "options.h"
#include "prepare/recursion.h"
#include "prepare/unroll.h"
#include "report/report.h"
#include "llvm/ADT/SCCIterator.h"
#include "llvm/Analysis/CallGraph.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Plugins/PassPlugin.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/LoopUtils.h"

using namespace llvm;

namespace curtail {

static const char Done[] = "curtail-instrumented";

// What callers are to know of a function that was left alone: no safepoints in it, and about its
// size as cost. What it calls may have some.
static Summary summaryOfSkipped(const Function &F) {
  Summary S;
  unsigned Size = std::min<unsigned>(F.getInstructionCount(), 40);
  S.ToFirst = S.ThroughMax = S.FromLast = Size;
  S.Uncharged = Size;
  S.MayYield = any_of(instructions(F), isRealCall);
  return S;
}

// Loops that are cut into chunks need a block before them.
static void giveLoopsPreheaders(Function &F, FunctionAnalysisManager &FAM) {
  auto &LI = FAM.getResult<LoopAnalysis>(F);
  auto &DT = FAM.getResult<DominatorTreeAnalysis>(F);
  bool Changed = false;
  for (Loop *L : LI.getLoopsInPreorder())
    if (L->getLoopLatch() && !L->getLoopPreheader())
      Changed |= InsertPreheaderForLoop(L, &DT, &LI, nullptr, false) != nullptr;
  if (!Changed)
    return;
  PreservedAnalyses Kept;
  Kept.preserve<LoopAnalysis>();
  Kept.preserve<DominatorTreeAnalysis>();
  FAM.invalidate(F, Kept);
}

static Analyses analysesOf(Function &F, FunctionAnalysisManager &FAM) {
  return {FAM.getResult<LoopAnalysis>(F),
          FAM.getResult<DominatorTreeAnalysis>(F),
          FAM.getResult<BlockFrequencyAnalysis>(F),
          FAM.getResult<BranchProbabilityAnalysis>(F),
          FAM.getResult<ScalarEvolutionAnalysis>(F),
          FAM.getResult<TargetLibraryAnalysis>(F),
          FAM.getResult<TargetIRAnalysis>(F)};
}

class SafepointPass : public PassInfoMixin<SafepointPass> {
public:
  static bool isRequired() { return true; } // optnone functions need safepoints, too

  PreservedAnalyses run(Module &M, ModuleAnalysisManager &MAM) {
    const Options &O = options();
    if (O.Safepoints == Kind::None)
      return PreservedAnalyses::all();
    auto &FAM = MAM.getResult<FunctionAnalysisManagerModuleProxy>(M).getManager();
    Exclusions Excluded(M, O);
    Report R(M, O);
    Summaries Known;
    GlobalVariable &Block = declareBlock(M, O);
    for (Function &F : make_early_inc_range(M))
      if (isToInstrument(F, Excluded))
        unrollRecursion(F, FAM);
    Functions Far = returningFar(M);
    CallGraph Graph(M);
    dropDeadEnds(Graph);
    for (auto It = scc_begin(&Graph); !It.isAtEnd(); ++It) {
      CallCycle Cycle;
      SmallVector<Function *, 1> Together;
      if (It.hasCycle())
        for (CallGraphNode *Node : *It)
          if (Node->getFunction())
            Cycle.Members.insert(Node->getFunction());
      for (CallGraphNode *Node : *It)
        if (Function *F = Node->getFunction(); F && isOurs(*F, Excluded, Block, FAM, Known, R))
          Together.push_back(F);
      auto Of = [&](Function &F) { return analysesOf(F, FAM); };
      for (Function *F : Together)
        prepare(*F, Cycle, Far, FAM, Known);
      for (Planned &Each : planTogether(Together, Cycle, Far, Of, Known))
        instrument(*Each.F, Each.P, Block, FAM, R);
    }
    R.write();
    return PreservedAnalyses::none();
  }

private:
  static bool isToInstrument(const Function &F, const Exclusions &Excluded) {
    return !F.hasFnAttribute(Done) && Excluded.reason(F).empty();
  }

  // Whether a function gets safepoints. What is known of others is said here.
  static bool isOurs(Function &F, const Exclusions &Excluded, GlobalVariable &Block, FunctionAnalysisManager &FAM,
                     Summaries &Known, Report &R) {
    if (F.isDeclaration() || F.hasAvailableExternallyLinkage() || F.hasFnAttribute(Done))
      return false;
    StringRef Why = Excluded.reason(F);
    if (!Why.empty()) {
      R.skipped(F, Why);
      noteSkipped(F, Why);
      Summary Skipped = summaryOfSkipped(F);
      if (Exclusions::isShielded(Why)) {
        if (shieldBody(F, Excluded, Known, FAM.getResult<TargetLibraryAnalysis>(F), Block))
          FAM.invalidate(F, PreservedAnalyses::none());
        Skipped.MayYield = false;
      }
      if (!F.isInterposable())
        Known[&F] = Skipped;
    }
    return Why.empty();
  }

  // What changes a function's shape before its safepoints are planned.
  static void prepare(Function &F, const CallCycle &Cycle, const Functions &Far, FunctionAnalysisManager &FAM,
                      const Summaries &Known) {
    giveLoopsPreheaders(F, FAM);
    if (unrollTightLoops(Facts(F, analysesOf(F, FAM), Known, Cycle, Far, options()), FAM))
      giveLoopsPreheaders(F, FAM);
  }

  static void instrument(Function &F, Plan &P, GlobalVariable &Block, FunctionAnalysisManager &FAM, Report &R) {
    Analyses A = analysesOf(F, FAM);
    for (const ShortLoop &S : P.Short)
      noteBoundedLoop(*S.L, S.Trips, S.Iteration);
    noteInstrumented(F, options());
    if (!P.Points.empty() || !P.Chunks.empty() || !P.LongCalls.empty())
      emit(F, P, Block, options(), A);
    bracketGuards(F, Block);
    bracketLibraryCallbacks(F, Block);
    F.addFnAttr(Done);
    R.instrumented(F, P);
    FAM.invalidate(F, PreservedAnalyses::none());
  }
};

// Early, where C and C++ are compiled: inlining would lose what the functions are. (Rust's code comes
// inlined already: there, line tables tell.)
class KeepOutOfLine : public PassInfoMixin<KeepOutOfLine> {
public:
  static bool isRequired() { return true; }

  PreservedAnalyses run(Module &M, ModuleAnalysisManager &) {
    Exclusions Excluded(M, options());
    bool Changed = false;
    for (Function &F : M) {
      if (F.isDeclaration() || F.hasFnAttribute(Attribute::AlwaysInline) || !Excluded.isChosen(F))
        continue;
      F.addFnAttr(Attribute::NoInline);
      Changed = true;
    }
    return Changed ? PreservedAnalyses::none() : PreservedAnalyses::all();
  }
};

// The drivers read this off the file, to find the compiler and the linker that can load it.
#define TEXT_OF(X) #X
#define TEXT(X) TEXT_OF(X)
__attribute__((used)) static const char Mark[] = "curtail-pass-for-llvm-" TEXT(LLVM_VERSION_MAJOR);

static void registerCallbacks(PassBuilder &PB) {
  PB.registerPipelineParsingCallback(
      [](StringRef Name, ModulePassManager &MPM, ArrayRef<PassBuilder::PipelineElement>) {
        if (Name == "curtail-safepoints")
          MPM.addPass(SafepointPass());
        else if (Name == "curtail-keep-out")
          MPM.addPass(KeepOutOfLine());
        else
          return false;
        return true;
      });
  PB.registerPipelineStartEPCallback([](ModulePassManager &MPM, OptimizationLevel) { MPM.addPass(KeepOutOfLine()); });
  // Before the link, code is still to be inlined and optimised: too early.
  PB.registerOptimizerLastEPCallback([](ModulePassManager &MPM, OptimizationLevel, ThinOrFullLTOPhase Phase) {
    if (Phase == ThinOrFullLTOPhase::None || Phase == ThinOrFullLTOPhase::ThinLTOPostLink)
      MPM.addPass(SafepointPass());
  });
  PB.registerFullLinkTimeOptimizationLastEPCallback(
      [](ModulePassManager &MPM, OptimizationLevel) { MPM.addPass(SafepointPass()); });
}

} // namespace curtail

extern "C" __attribute__((visibility("default"))) PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "curtail", "1", curtail::registerCallbacks};
}
