#include "emit/notes.h"
#include "guard/critical.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace curtail {

// The numbers of crates/verify/src/notes.rs, REASONS.
enum Reason : uint32_t {
  Instrumented = 0,
  LeftAlone = 1,
  Marked = 2,
  KeptOut = 3,
  Allocator = 4,
  SignalHandler = 5,
  StaticInitialiser = 6,
  PartOfCurtail = 7,
};

static Reason numberOf(StringRef Why) {
  if (Why == "annotated" || Why == "section mark" || Why == "marked against pre-emption")
    return Marked;
  if (Why == "keep-out list" || Why == "kept out by default")
    return KeptOut;
  if (Why == "allocator")
    return Allocator;
  if (Why == "signal handler")
    return SignalHandler;
  if (Why == "static initialiser" || Why == "destructor at exit")
    return StaticInitialiser;
  if (Why == "part of Curtail")
    return PartOfCurtail;
  return LeftAlone;
}

// An entry of .curtail.functions: LLVM's PC sections write where the function is, and its size; the
// word follows. The linker drops an entry together with its function.
static void noteFunction(Function &F, uint32_t Word) {
  if (F.hasAvailableExternallyLinkage())
    return;
  LLVMContext &C = F.getContext();
  SmallVector<Metadata *, 4> Parts;
  if (MDNode *Others = F.getMetadata(LLVMContext::MD_pcsections))
    Parts.append(Others->op_begin(), Others->op_end());
  Constant *Field = ConstantInt::get(Type::getInt32Ty(C), Word);
  Parts.push_back(MDString::get(C, ".curtail.functions"));
  Parts.push_back(MDNode::get(C, ConstantAsMetadata::get(Field)));
  F.setMetadata(LLVMContext::MD_pcsections, MDNode::get(C, Parts));
}

void noteInstrumented(Function &F, const Options &O) { noteFunction(F, O.Bound << 8); }

void noteSkipped(Function &F, StringRef Why) { noteFunction(F, numberOf(Why)); }

// The address of a place right before the loop, in an entry of .curtail.loops. The assembler puts the
// entry into the function's section group, if it has one ("?"), so that discarded code takes its
// notes along. Depth and number of back edges tell the loop from one around it, and from two merged
// into one, where code generation left no instruction between their headers.
// Without operands and clobbers, in front of the loop: nothing inside it changes.
void noteLoop(Instruction *Entry, uint64_t MaxTrips, unsigned IterationCost, unsigned Depth, unsigned BackEdges) {
  std::string Text = "77:\n.pushsection .curtail.loops,\"?\",@progbits\n.quad 77b\n.quad " + std::to_string(MaxTrips) +
                     "\n.long " + std::to_string(IterationCost) + "\n.short 1\n.byte " +
                     std::to_string(std::min(Depth, 255u)) + "\n.byte " + std::to_string(std::min(BackEdges, 255u)) +
                     "\n.popsection";
  IRBuilder<> B(Entry);
  B.SetCurrentDebugLocation(Entry->getDebugLoc());
  // The same text twice in a function must stay two places.
  assembly(B, B.getVoidTy(), Text, "")->addFnAttr(Attribute::NoMerge);
}

void noteBoundedLoop(Loop &L, uint64_t MaxTrips, unsigned IterationCost) {
  SmallPtrSet<BasicBlock *, 4> Done;
  for (BasicBlock *Before : predecessors(L.getHeader())) {
    if (L.contains(Before) || !Done.insert(Before).second)
      continue;
    // An invoke's label would lie before the call: the loop then counts as unproven.
    if (!isa<InvokeInst, CallBrInst>(Before->getTerminator()))
      noteLoop(Before->getTerminator(), MaxTrips, IterationCost, L.getLoopDepth(), L.getNumBackEdges());
  }
}

} // namespace curtail
