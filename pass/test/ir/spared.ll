; A function that others call through pointers, and that calls soon after its entry: one safepoint an
; activation does, behind the call, where every way from it to a return passes one.
; RUN: CURTAIL_PASS=bound=600 opt -passes=curtail-safepoints -S < %s | FileCheck %s

declare i64 @unseen(i64)
declare i64 @other(i64)

; CHECK-LABEL: define i64 @twice(
; CHECK-NOT: curtail_safepoint
; CHECK: call i64 @unseen(
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: call i64 @other(
define i64 @twice(i64 %x) {
  %1 = mul i64 %x, 3
  %2 = call i64 @unseen(i64 %1)
  %3 = add i64 %2, 1
  %4 = call i64 @other(i64 %3)
  %5 = sub i64 %4, %x
  ret i64 %5
}

; On the way over `short` there is none: the call needs its own.
; CHECK-LABEL: define i64 @sometimes(
; CHECK-NOT: call i64 @unseen(
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: call i64 @unseen(
define i64 @sometimes(i64 %x) {
  %more = mul i64 %x, 3
  %1 = call i64 @unseen(i64 %more)
  %2 = icmp eq i64 %1, 0
  br i1 %2, label %short, label %long
long:
  %3 = call i64 @other(i64 %1)
  %4 = call i64 @unseen(i64 %3)
  br label %end
short:
  ret i64 %1
end:
  %5 = sub i64 %4, %x
  ret i64 %5
}

; A call in the place of the return has nothing behind it, and such may follow one another for ever. The other
; call of the function is spared all the same.
; CHECK-LABEL: define i64 @instead(
; CHECK: br i1 %leaf
; CHECK: two:
; CHECK-NEXT: call i64 @unseen(
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: one:
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: tail call i64 @unseen(
define i64 @instead(i64 %x, i1 %leaf) {
  br i1 %leaf, label %one, label %two
two:
  %1 = call i64 @unseen(i64 %x)
  %2 = call i64 @other(i64 %1)
  %3 = sub i64 %2, %x
  ret i64 %3
one:
  %4 = tail call i64 @unseen(i64 %x)
  ret i64 %4
}

; Not soon after the entry.
; CHECK-LABEL: define i64 @later(
; CHECK-NOT: call i64 @unseen(
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: call i64 @unseen(
define i64 @later(i64 %x, i64 %y) {
  %1 = sdiv i64 %x, %y
  %2 = sdiv i64 %1, %y
  %3 = call i64 @unseen(i64 %2)
  %4 = call i64 @other(i64 %3)
  %5 = sub i64 %4, %x
  ret i64 %5
}

; A recursion has its own.
; CHECK-LABEL: define i64 @recursive(
; CHECK-NOT: call i64 @recursive(
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: call i64 @recursive(
define i64 @recursive(i64 %x) {
  %1 = call i64 @recursive(i64 %x)
  %2 = call i64 @other(i64 %1)
  %3 = sub i64 %2, %x
  ret i64 %3
}

; Nor does one go without whose callee is known to work for longer than a quarter of the bound before its
; first safepoint.
; CHECK-LABEL: define i64 @before_long(
; CHECK-NOT: call {{.*}}@long(
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: call {{.*}}@long(
define i64 @before_long(i64 %x) {
  %1 = mul i64 %x, 3
  %2 = call i64 @long(i64 %1, i64 %x)
  %3 = call i64 @other(i64 %2)
  %4 = sub i64 %3, %x
  ret i64 %4
}

define internal i64 @long(i64 %x, i64 %y) noinline {
  %1 = sdiv i64 %x, %y
  %2 = sdiv i64 %1, %y
  %3 = sdiv i64 %2, %y
  %4 = sdiv i64 %3, %y
  %5 = sdiv i64 %4, %y
  %6 = sdiv i64 %5, %y
  %7 = sdiv i64 %6, %y
  %8 = sdiv i64 %7, %y
  %9 = sdiv i64 %8, %y
  %10 = sdiv i64 %9, %y
  %11 = sdiv i64 %10, %y
  %12 = sdiv i64 %11, %y
  %13 = sdiv i64 %12, %y
  %14 = sdiv i64 %13, %y
  %15 = call i64 @unseen(i64 %14)
  ret i64 %15
}
