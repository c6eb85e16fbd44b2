#include "place.h"
#include "coldcalls.h"
#include "cost.h"
#include "recursion.h"
#include "tls.h"
#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"

using namespace llvm;

namespace curtail {

// What a call to something unseen costs its caller: mostly the callee charges for itself.
static const unsigned UnseenCharge = 10;

// In a larger nest of loops the register is missed: what is spilled for it costs more than it saves.
// An interpreter's handlers are alternatives: their number needs no register.
static const unsigned MostInRegister = 1024, MostInHandler = 32;

// What cutting changes in a loop's registers, and behind it, shows in small ones alone. In a large loop
// around them, an interpreter's say, more code makes the registers of all of it worse.
static const unsigned MostCopied = 96, MostAround = 4096;

// A tight loop is unrolled to about so much work.
static const unsigned UnrolledBody = 2 * MostTight, MostCopies = 4;

// Of a function with very many such loops the most frequent are: each costs time in proportion to the
// whole function.
static const unsigned MostUnrolled = 100;

Placer::Placer(Function &F, const Analyses &A, const Summaries &Known,
               const CallCycle &Cycle, const Functions &Far, const Options &O)
    : F(F), A(A), Known(Known), Cycle(Cycle), Opts(O), Bound(O.Bound), Quarter(O.Bound / 4),
      Visible(!F.hasLocalLinkage() || F.hasAddressTaken() || Cycle.continues(&F)),
      Far(Visible || Far.contains(&F)),
      Locals(std::make_unique<ThreadLocalLiveness>(F)), Cold(coldBlocks(F)) {
  ReversePostOrderTraversal<Function *> Traversal(&F);
  for (BasicBlock *BB : Traversal) {
    Index[BB] = Order.size();
    Order.push_back(BB);
  }
  expectFewCalls();
}

Placer::Effect Placer::effectOf(const CallBase &Call) const {
  if (isPlainLibraryCall(Call, A.TLI)) {
    unsigned Cost = costOf(Call, A.TLI, A.TTI);
    return {Cost, true, Cost, false, 0, double(Cost)};
  }
  const Function *Callee = Call.getCalledFunction();
  auto It = Callee ? Known.find(Callee) : Known.end();
  if (It != Known.end()) {
    const Summary &S = It->second;
    return {S.ToFirst + 5, S.Through, S.ThroughMax + 5, S.MayYield, S.FromLast, S.Uncharged + 5};
  }
  // Not seen, or (in a cycle) not yet: what the convention says. Most have a safepoint, or are much
  // shorter than the quarter that they may be. At a fourth of that, no more than ten come in a row, which
  // is less than three times the bound, as curtail-verify allows, even if none of them has one. What is
  // called through a pointer is mostly shorter still; in a cycle, only the activations that end the
  // recursion have none. Where one stands for several, each has its tolerance.
  const bool Continues = Cycle.continues(Callee);
  unsigned Levels = Continues ? activationsOf(*Callee) : 1;
  const unsigned OnReturn = Continues && Cycle.Branches ? TreeTolerance : Tolerance;
  unsigned After = Quarter - std::min(Quarter, Levels * OnReturn);
  unsigned Through = std::min(Quarter, Continues ? Cycle.Through : UsualThrough);
  if (Callee && !Continues)
    Through = std::max(Through, Quarter / 4);
  return {Quarter, true, Through, true, After, double(UnseenCharge)};
}

bool Placer::mayPlaceIn(const BasicBlock &BB) const {
  return Placing && !Cold.contains(&BB) && !BB.isEHPad();
}

bool Placer::legal(const Instruction &I) const {
  if (isa<PHINode>(I) || I.isEHPad() || Locals->liveBefore(I) || Opts.KeepOut.containsPlace(I))
    return false;
  // Nothing may come between a musttail call and its return.
  const Instruction *Previous = I.getPrevNode();
  auto *Call = dyn_cast_or_null<CallInst>(Previous);
  return !(Call && Call->isMustTailCall());
}

// The call that takes the place of a return.
static CallInst *tailCallOf(const ReturnInst &Return) {
  const Instruction *Previous = Return.getPrevNode();
  while (Previous && isa<BitCastInst>(Previous))
    Previous = Previous->getPrevNode();
  auto *Call = const_cast<CallInst *>(dyn_cast_or_null<CallInst>(Previous));
  return Call && Call->isTailCall() && !isa<IntrinsicInst>(Call) ? Call : nullptr;
}

Functions returningFar(Module &M) {
  Functions Far;
  SmallVector<Function *, 16> Work;
  auto Add = [&](Function &F) {
    if (!F.isDeclaration() && Far.insert(&F).second)
      Work.push_back(&F);
  };
  for (Function &F : M)
    if (!F.hasLocalLinkage() || F.hasAddressTaken())
      Add(F);
  while (!Work.empty())
    for (BasicBlock &BB : *Work.pop_back_val())
      if (auto *Return = dyn_cast<ReturnInst>(BB.getTerminator()))
        if (CallInst *Call = tailCallOf(*Return); Call && Call->getCalledFunction())
          Add(*Call->getCalledFunction());
  return Far;
}

// The last place in a block: before the terminator, the comparison it depends on, and a tail call.
Instruction *Placer::endOf(BasicBlock &BB) const {
  Instruction *End = BB.getTerminator();
  if (auto *Return = dyn_cast<ReturnInst>(End)) {
    Instruction *Call = tailCallOf(*Return);
    return Call ? Call : End;
  }
  auto *Branch = dyn_cast<BranchInst>(End);
  if (!Branch || !Branch->isConditional())
    return End;
  auto *Condition = dyn_cast<CmpInst>(Branch->getCondition());
  if (!Condition || Condition->getParent() != &BB || !Condition->hasOneUse())
    return End;
  // Keeps comparison and branch together, so that they still become one instruction.
  Condition->moveBefore(End->getIterator());
  return Condition;
}

// What an innermost loop waits for beyond its instructions, as work: at full speed, a cycle has about
// three units.
void Placer::findStalls() {
  for (Loop *L : A.LI.getLoopsInPreorder()) {
    if (!L->isInnermost() || L->getNumBlocks() > 32)
      continue;
    SmallVector<BasicBlock *, 8> Body;
    double Work = 0;
    double Header = std::max(frequencyOf(*L->getHeader()), 1.0);
    for (BasicBlock *BB : Order) {
      if (!L->contains(BB))
        continue;
      Body.push_back(BB);
      double Often = frequencyOf(*BB) / Header;
      for (Instruction &I : *BB)
        Work += Often * costOf(I, A.TLI, A.TTI);
    }
    double Waits = 3.0 * recurrenceOf(*L, Body) - Work;
    if (Waits > 0)
      Stalls[L->getHeader()] = Waits;
  }
}

int Placer::nestOf(const BasicBlock *BB) const {
  for (auto [I, L] : enumerate(P.Nests))
    if (L->contains(BB))
      return int(I);
  return -1;
}

// Whether the budget can go into a register before the loop, and back to memory behind it: there must be
// a place on the edges in and out. Of a computed goto there is none, but where all ways to its target
// come from the loop, the target is one.
bool Placer::nestPossible(Loop &L) const {
  auto Fixed = [](const BasicBlock *BB) {
    return isa<IndirectBrInst, CallBrInst, InvokeInst>(BB->getTerminator());
  };
  auto Inside = [&](const BasicBlock *BB) { return L.contains(BB); };
  for (BasicBlock *BB : L.blocks()) {
    if (isa<CallBrInst, InvokeInst>(BB->getTerminator()))
      return false;
    for (Instruction &I : *BB)
      if (isRealCall(I) && effectOf(cast<CallBase>(I)).MayYield)
        return false;
    for (BasicBlock *Next : successors(BB)) {
      Loop *Target = A.LI.getLoopFor(Next);
      if (L.contains(Next) && Index.lookup(Next) <= Index.lookup(BB) &&
          !(Target->getHeader() == Next && Target->contains(BB)))
        return false;
      if (!L.contains(Next) && (Next->isEHPad() || (Fixed(BB) && !all_of(predecessors(Next), Inside))))
        return false;
    }
  }
  return none_of(predecessors(L.getHeader()),
                 [&](BasicBlock *BB) { return Fixed(BB) && !L.contains(BB); });
}

static unsigned sizeOf(const Loop &L, const Analyses &A) {
  unsigned Size = 0;
  for (const BasicBlock *BB : L.blocks())
    for (const Instruction &I : *BB)
      Size += costOf(I, A.TLI, A.TTI);
  return Size;
}

// Where a loop's header is the dispatch of an interpreter: how many handlers it has.
static unsigned handlersOf(const Loop &L) {
  const Instruction *Dispatch = L.getHeader()->getTerminator();
  if (!isa<SwitchInst, IndirectBrInst>(Dispatch))
    return 0;
  SmallPtrSet<const BasicBlock *, 32> Handlers(succ_begin(Dispatch), succ_end(Dispatch));
  return Handlers.size();
}

// A loop in which a read-modify-write of memory in each iteration would show: one whose iterations
// are short, or that runs loops which are charged each time.
bool Placer::worthRegister(Loop &L) const {
  if (sizeOf(L, A) > std::max(MostInRegister, MostInHandler * handlersOf(L)))
    return false;
  for (Loop *Inner : L.getLoopsInPreorder()) {
    if (Free.count(Inner))
      continue;
    int At = chunkOf(Inner);
    bool Possible = true; // stays so only if all loops inside are free, or gated
    if (At >= 0 ? Inner != &L && isSelf(P.Chunks[At])
                : longestIteration(*Inner, Possible, /*PastGates=*/true) <= 64 && Possible)
      return true;
  }
  return false;
}

void Placer::chooseNests() {
  if (Opts.Safepoints != Kind::Clock || F.callsFunctionThatReturnsTwice())
    return;
  SmallVector<Loop *, 8> Work(A.LI.begin(), A.LI.end());
  while (!Work.empty()) {
    Loop *L = Work.pop_back_val();
    if (!worthRegister(*L) || !nestPossible(*L)) {
      Work.append(L->begin(), L->end());
      continue;
    }
    P.Nests.push_back(L);
    for (Chunk &C : P.Chunks)
      C.Unchecked |= isSelf(C) && L->contains(C.Preheader);
  }
}

static bool mayCopy(const Loop &L) {
  return none_of(L.blocks(), [](const BasicBlock *BB) {
    return BB->hasAddressTaken() || any_of(*BB, [](const Instruction &I) {
             auto *Call = dyn_cast<CallBase>(&I);
             return I.getType()->isTokenTy() || (Call && (Call->cannotDuplicate() || Call->isConvergent()));
           });
  });
}

// Small loops that are charged as a whole: mostly they fit, and then nothing about them has changed.
void Placer::chooseCopies() {
  SmallPtrSet<const Loop *, 8> Large;
  for (const Loop *L : A.LI)
    if (sizeOf(*L, A) > MostAround)
      Large.insert(L);
  for (Chunk &C : P.Chunks)
    C.Copied = C.Whole && C.L->isInnermost() && !Large.contains(C.L->getOutermostLoop()) &&
               sizeOf(*C.L, A) <= MostCopied && mayCopy(*C.L) &&
               none_of(P.LongCalls, [&](const LongCall &Long) { return C.L->contains(Long.Call); });
}

void Placer::findBracketed() {
  if (!Locals->any())
    return;
  for (Instruction &I : instructions(F)) {
    auto *Call = dyn_cast<CallBase>(&I);
    if (!Call || !isRealCall(I) || Call->isMustTailCall())
      continue;
    if (effectOf(*Call).MayYield && Locals->heldDuring(*Call))
      P.Bracketed.push_back(Call);
  }
}

SmallVector<TightLoop, 4> Placer::tightLoops() {
  SmallVector<TightLoop, 4> Tight;
  if (Opts.Safepoints == Kind::Reads)
    return Tight;
  findFreeLoops();
  findChunks();
  for (Loop *L : A.LI.getLoopsInPreorder()) {
    int At = chunkOf(L);
    bool Possible = L->isInnermost() && !Free.count(L) && (At < 0 || P.Chunks[At].Gate);
    unsigned Iteration = Possible ? longestIteration(*L, Possible) : 0;
    // Gated, it is to stay so.
    unsigned Body = At >= 0 ? Bound / 2 / LeastPeriod : UnrolledBody;
    unsigned Copies = std::min(MostCopies, Body / std::max(Iteration, 1u));
    if (Possible && Iteration <= MostTight && Copies > 1)
      Tight.push_back({L, Copies});
  }
  stable_sort(Tight, [&](const TightLoop &L, const TightLoop &R) {
    return A.BFI.getBlockFreq(L.L->getHeader()) > A.BFI.getBlockFreq(R.L->getHeader());
  });
  Tight.truncate(std::min<size_t>(Tight.size(), MostUnrolled));
  return Tight;
}

// Finds out where safepoints are needed, if anywhere.
bool Placer::demand() {
  findStalls();
  findFreeLoops();
  findChunks();
  chooseNests();
  forceCatches();
  forceLoopPoints();
  forceIrreducible();
  if (isCalledInLoops(F))
    forceTop(F.getEntryBlock());
  if (Cycle.continues(&F))
    forceRecursion();
  // Short, and without safepoints of its own: the callers account for it.
  if (Forced.empty() && P.Chunks.empty()) {
    Placing = false;
    settle();
    Placing = P.Longest > (Far ? Quarter : Bound / 2);
  }
  if (Placing)
    settle();
  return Placing;
}

Plan Placer::plan() {
  if (demand()) {
    preferBehindTests();
    chargeRemainder();
  }
  findBracketed();
  Result.MayYield |= !P.Points.empty() || !P.Chunks.empty();
  findLongCalls();
  chooseCopies();
  return std::move(P);
}

} // namespace curtail
