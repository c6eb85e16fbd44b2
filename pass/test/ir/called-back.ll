; What the C library calls in a loop has a safepoint, short as it is: the library's loop has none.
; RUN: CURTAIL_PASS=bound=600 opt -passes=curtail-safepoints,verify -S < %s | FileCheck %s
declare void @qsort(ptr, i64, i64, ptr)
declare void @on_exit_like(ptr)

; CHECK-LABEL: define internal i32 @order(
; CHECK-NEXT: call i8 asm sideeffect "subq
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: ret i32
define internal i32 @order(ptr %a, ptr %b) {
  %x = load i32, ptr %a
  %y = load i32, ptr %b
  %d = sub i32 %x, %y
  ret i32 %d
}

; CHECK-LABEL: define internal i32 @once(
; CHECK-NOT: curtail_safepoint
; CHECK: ret i32
define internal i32 @once(ptr %a) {
  %x = load i32, ptr %a
  ret i32 %x
}

define void @sort(ptr %v, i64 %n) {
  call void @qsort(ptr %v, i64 %n, i64 4, ptr @order)
  call void @on_exit_like(ptr @once)
  ret void
}
