; A loop with calls whose way back is a block of its own has its safepoint there: whoever does not go
; back passes none. Without calls, the header has it.
; RUN: CURTAIL_PASS=bound=400 opt -passes=curtail-safepoints,verify -S < %s | FileCheck %s
declare i64 @look(ptr)

; CHECK-LABEL: define internal i64 @retry(
; CHECK: again:
; CHECK-NOT: curtail_safepoint_slow
; CHECK: call i64 @look(
; CHECK: back:
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: br label %again
; CHECK: done:
; CHECK-NOT: curtail_safepoint_slow
; CHECK: ret i64
define internal i64 @retry(ptr %p) {
entry:
  br label %again
again:
  %at = phi ptr [ %p, %entry ], [ %next, %back ]
  %found = call i64 @look(ptr %at)
  %none = icmp eq i64 %found, 0
  br i1 %none, label %back, label %done
back:
  %next = load ptr, ptr %at
  br label %again
done:
  ret i64 %found
}

; CHECK-LABEL: define internal i64 @list(
; CHECK: again:
; CHECK: %at = phi ptr
; CHECK-NEXT: sub nsw i64
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: volatile
define internal i64 @list(ptr %p) {
entry:
  br label %again
again:
  %at = phi ptr [ %p, %entry ], [ %next, %back ]
  %key = load volatile i64, ptr %at
  %none = icmp eq i64 %key, 0
  br i1 %none, label %back, label %done
back:
  %next = load volatile ptr, ptr %at
  br label %again
done:
  ret i64 %key
}

define i64 @both(ptr %p) {
  %a = call i64 @retry(ptr %p)
  %b = call i64 @list(ptr %p)
  %sum = add i64 %a, %b
  ret i64 %sum
}
