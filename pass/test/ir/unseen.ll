; What is not seen: a row of calls, each of which may be a quarter of the bound long, and waiting.
; RUN: CURTAIL_PASS=bound=600 opt -passes=curtail-safepoints -S < %s | FileCheck %s

declare void @unseen()
declare void @llvm.x86.sse2.pause()

; One because most of the bound may be gone on entry, one after ten calls, one that leaves the caller its part.
; CHECK-LABEL: define void @row(
; CHECK-COUNT-3: call void asm sideeffect "call curtail_safepoint_slow
; CHECK-NOT: curtail_safepoint_slow
; CHECK: ret void
define void @row() {
  call void @unseen()
  call void @unseen()
  call void @unseen()
  call void @unseen()
  call void @unseen()
  call void @unseen()
  call void @unseen()
  call void @unseen()
  call void @unseen()
  call void @unseen()
  call void @unseen()
  call void @unseen()
  call void @unseen()
  call void @unseen()
  ret void
}

; Few rounds, but each waits.
; CHECK-LABEL: define void @backoff(
; CHECK: ret void
; CHECK: curtail_safepoint_slow
define void @backoff() {
entry:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  call void @llvm.x86.sse2.pause()
  %next = add i32 %i, 1
  %done = icmp eq i32 %next, 36
  br i1 %done, label %exit, label %loop
exit:
  ret void
}
