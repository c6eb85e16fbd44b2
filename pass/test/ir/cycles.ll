; Where a recursion's safepoints go: on the way to its calls, or to the entries of some of its functions, whatever
; is less often passed by estimate.
; RUN: CURTAIL_PASS=bound=600 opt -passes=curtail-safepoints,verify -S < %s | FileCheck %s

; A node's children: the calls are in a loop, which would have a safepoint in each iteration.
; CHECK-LABEL: define i64 @children(
; CHECK-NEXT: entry:
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK-NOT: curtail_safepoint_slow
; CHECK: ret i64
define i64 @children(ptr %node) noinline {
entry:
  %value = load i64, ptr %node
  %place = getelementptr ptr, ptr %node, i64 1
  %first = load ptr, ptr %place
  %leaf = icmp eq ptr %first, null
  br i1 %leaf, label %exit, label %loop
loop:
  %child = phi ptr [ %first, %entry ], [ %next, %loop ]
  %sum = phi i64 [ %value, %entry ], [ %more, %loop ]
  %its = call i64 @children(ptr %child)
  %more = add i64 %sum, %its
  %beside = getelementptr ptr, ptr %child, i64 2
  %next = load ptr, ptr %beside
  %last = icmp eq ptr %next, null
  br i1 %last, label %exit, label %loop
exit:
  %all = phi i64 [ %value, %entry ], [ %more, %loop ]
  ret i64 %all
}

; Two calls outside of loops: half of all activations have none, and need no safepoint.
; CHECK-LABEL: define i64 @binary(
; CHECK-NEXT: entry:
; CHECK-NOT: curtail_safepoint
; CHECK: both:
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: ret i64
define i64 @binary(ptr %node) noinline {
entry:
  %leaf = icmp eq ptr %node, null
  br i1 %leaf, label %exit, label %both
both:
  %left = load ptr, ptr %node
  %a = call i64 @binary(ptr %left)
  %place = getelementptr ptr, ptr %node, i64 1
  %right = load ptr, ptr %place
  %b = call i64 @binary(ptr %right)
  %sum = add i64 %a, %b
  ret i64 %sum
exit:
  ret i64 1
}

; A parser: what stands in parentheses is a sum, so one at its entry does for factors and terms, and for what comes
; first in each; the loops have one on their way back.
; CHECK-LABEL: define internal i64 @factor(
; CHECK-NOT: curtail_safepoint
; CHECK: ret i64
; CHECK-LABEL: define internal i64 @term(
; CHECK-NOT: curtail_safepoint
; CHECK: call i64 @factor()
; CHECK: call i64 @factor()
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: ret i64
; CHECK-LABEL: define internal i64 @sum(
; CHECK-NEXT: entry:
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: call i64 @term()
; CHECK: ret i64
@text = global ptr null
define internal i64 @factor() noinline {
entry:
  %at = load ptr, ptr @text
  %c = load i8, ptr %at
  %next = getelementptr i8, ptr %at, i64 1
  store ptr %next, ptr @text
  %open = icmp eq i8 %c, 40
  br i1 %open, label %nested, label %digit, !prof !0
nested:
  %in = call i64 @sum()
  ret i64 %in
digit:
  %d = zext i8 %c to i64
  ret i64 %d
}
define internal i64 @term() noinline {
entry:
  %first = call i64 @factor()
  br label %more
more:
  %value = phi i64 [ %first, %entry ], [ %product, %times ]
  %at = load ptr, ptr @text
  %c = load i8, ptr %at
  %is = icmp eq i8 %c, 42
  br i1 %is, label %times, label %done
times:
  %next = getelementptr i8, ptr %at, i64 1
  store ptr %next, ptr @text
  %by = call i64 @factor()
  %product = mul i64 %value, %by
  br label %more
done:
  ret i64 %value
}
define internal i64 @sum() noinline {
entry:
  %first = call i64 @term()
  br label %more
more:
  %value = phi i64 [ %first, %entry ], [ %total, %plus ]
  %at = load ptr, ptr @text
  %c = load i8, ptr %at
  %is = icmp eq i8 %c, 43
  br i1 %is, label %plus, label %done
plus:
  %next = getelementptr i8, ptr %at, i64 1
  store ptr %next, ptr @text
  %by = call i64 @term()
  %total = add i64 %value, %by
  br label %more
done:
  ret i64 %value
}
define i64 @parse(ptr %p) {
  store ptr %p, ptr @text
  %all = call i64 @sum()
  ret i64 %all
}
!0 = !{!"branch_weights", i32 1, i32 9}
