#include "coldcalls.h"
#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace curtail {

SmallPtrSet<const BasicBlock *, 8> coldBlocks(const Function &F) {
  SmallPtrSet<const BasicBlock *, 8> Cold;
  for (bool Changed = true; Changed;) {
    Changed = false;
    for (const BasicBlock *BB : post_order(&F)) {
      const Instruction *End = BB->getTerminator();
      bool Ends = isa<UnreachableInst, ResumeInst>(End) ||
                  (End->getNumSuccessors() != 0 &&
                   all_of(successors(BB), [&](const BasicBlock *Next) { return Cold.contains(Next); }));
      Changed |= Ends && Cold.insert(BB).second;
    }
  }
  return Cold;
}

void dropColdCalls(CallGraph &Graph) {
  for (const Function &F : Graph.getModule()) {
    if (F.isDeclaration())
      continue;
    const auto Cold = coldBlocks(F);
    CallGraphNode &Node = *Graph[&F];
    for (auto Edge = Node.begin(); Edge != Node.end();) {
      auto *Call = Edge->first ? dyn_cast_or_null<CallBase>(*Edge->first) : nullptr;
      if (!Call || !Cold.contains(Call->getParent())) {
        ++Edge;
        continue;
      }
      // Nobody else may call it, and whoever goes over the graph is to come to it.
      Graph.getExternalCallingNode()->addCalledFunction(nullptr, Edge->second);
      Node.removeCallEdge(Edge); // another takes its place
    }
  }
}

} // namespace curtail
