#include "facts/coldcalls.h"
#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace curtail {

using Blocks = SmallPtrSet<const BasicBlock *, 8>;

// Of a fixed point of `Is`, which may ask for the blocks found so far.
static Blocks findBlocks(const Function &F, function_ref<bool(const Instruction &End, const Blocks &)> Is) {
  Blocks Found;
  for (bool Changed = true; Changed;) {
    Changed = false;
    for (const BasicBlock *BB : post_order(&F))
      Changed |= Is(*BB->getTerminator(), Found) && Found.insert(BB).second;
  }
  return Found;
}

Blocks coldBlocks(const Function &F) {
  return findBlocks(F, [](const Instruction &End, const Blocks &Cold) {
    return isa<UnreachableInst, ResumeInst>(End) ||
           (End.getNumSuccessors() != 0 &&
            all_of(successors(&End), [&](const BasicBlock *Next) { return Cold.contains(Next); }));
  });
}

Blocks deadEnds(const Function &F) {
  const Blocks Cold = coldBlocks(F);
  return findBlocks(F, [&](const Instruction &End, const Blocks &Dead) {
    auto *Invoke = dyn_cast<InvokeInst>(&End);
    auto IsLeft = [&](const BasicBlock *Next) {
      return Dead.contains(Next) || (Invoke && Next == Invoke->getUnwindDest() && Cold.contains(Next));
    };
    return isa<UnreachableInst>(End) || (End.getNumSuccessors() != 0 && all_of(successors(&End), IsLeft));
  });
}

bool catches(const BasicBlock &BB) {
  const LandingPadInst *Pad = BB.getLandingPadInst();
  return Pad && Pad->getNumClauses() != 0;
}

void dropDeadEnds(CallGraph &Graph) {
  for (const Function &F : Graph.getModule()) {
    if (F.isDeclaration())
      continue;
    const Blocks Dead = deadEnds(F);
    CallGraphNode &Node = *Graph[&F];
    for (auto Edge = Node.begin(); Edge != Node.end();) {
      auto *Call = Edge->first ? dyn_cast_or_null<CallBase>(*Edge->first) : nullptr;
      if (!Call || !Dead.contains(Call->getParent())) {
        ++Edge;
        continue;
      }
      // No other function may call it, and a walk over the graph is to come to it.
      Graph.getExternalCallingNode()->addCalledFunction(nullptr, Edge->second);
      Node.removeCallEdge(Edge); // another takes its place
    }
  }
}

} // namespace curtail
