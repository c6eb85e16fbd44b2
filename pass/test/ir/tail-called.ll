; What is called in the place of the return of a function that is called from elsewhere returns to there, too:
; it keeps the same share of the bound for callers that do not see it.
; RUN: CURTAIL_PASS=bound=200 opt -passes=curtail-safepoints -S < %s | FileCheck %s

declare i64 @unseen(i64)

; CHECK-LABEL: define internal i64 @far(
; CHECK: call i64 @unseen(
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: ret i64
define internal i64 @far(i64 %x, i64 %y) noinline {
  %1 = call i64 @unseen(i64 %x)
  %2 = sdiv i64 %1, %y
  %3 = sdiv i64 %2, %y
  ret i64 %3
}

; Through another one.
; CHECK-LABEL: define internal i64 @between(
; CHECK-NOT: curtail_safepoint
; CHECK: ret i64
define internal i64 @between(i64 %x, i64 %y) noinline {
  %1 = tail call i64 @far(i64 %x, i64 %y)
  ret i64 %1
}

; CHECK-LABEL: define i64 @front(
define i64 @front(i64 %x, i64 %y) {
  %1 = tail call i64 @between(i64 %x, i64 %y)
  ret i64 %1
}

; The same work, for a caller that goes on: that one accounts for it.
; CHECK-LABEL: define internal i64 @near(
; CHECK: call i64 @unseen(
; CHECK-NOT: curtail_safepoint
; CHECK: ret i64
define internal i64 @near(i64 %x, i64 %y) noinline {
  %1 = call i64 @unseen(i64 %x)
  %2 = sdiv i64 %1, %y
  %3 = sdiv i64 %2, %y
  ret i64 %3
}

; CHECK-LABEL: define i64 @goes_on(
; CHECK: call i64 @near(
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: ret i64
define i64 @goes_on(i64 %x, i64 %y) {
  %1 = call i64 @near(i64 %x, i64 %y)
  %2 = add i64 %1, %x
  ret i64 %2
}
