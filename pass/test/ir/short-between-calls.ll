; A loop that is known to be short but for what it calls needs no safepoint in each iteration: one comes
; before the calls, unless what they call has one on all ways.
; RUN: CURTAIL_PASS=bound=600 opt -passes=curtail-safepoints,verify -S < %s | FileCheck %s
; RUN: CURTAIL_PASS=bound=600 opt -passes=curtail-safepoints -S < %s | FileCheck %s --check-prefix=NOTE
%node = type { [8 x ptr], i64 }
%wide = type { [200 x ptr], i64 }
declare i64 @look(ptr)

; The children of a node, most of which are not there. The recursion is not inlined into itself.
; CHECK-LABEL: define i64 @sum(
; CHECK: loop:
; CHECK-NOT: curtail_safepoint_slow
; CHECK: there:
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: call i64 @sum(
; CHECK-NOT: call i64 @sum(
; CHECK: next:
; CHECK-NOT: curtail_safepoint_slow
; CHECK: done:
; NOTE-LABEL: define i64 @sum(
; NOTE: .quad 8\0A.long
; NOTE: loop:
define i64 @sum(ptr %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %after, %next ]
  %all = phi i64 [ 0, %entry ], [ %more, %next ]
  %place = getelementptr %node, ptr %n, i64 0, i32 0, i64 %i
  %child = load ptr, ptr %place
  %none = icmp eq ptr %child, null
  br i1 %none, label %next, label %there
there:
  %of = call i64 @sum(ptr %child)
  %with = add i64 %all, %of
  br label %next
next:
  %more = phi i64 [ %all, %loop ], [ %with, %there ]
  %after = add nuw nsw i64 %i, 1
  %last = icmp eq i64 %after, 8
  br i1 %last, label %done, label %loop
done:
  ret i64 %more
}

; So many children that there must be one even where none is.
; CHECK-LABEL: define i64 @many(
; CHECK: loop:
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: getelementptr
; CHECK: ret i64
define i64 @many(ptr %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %after, %next ]
  %all = phi i64 [ 0, %entry ], [ %more, %next ]
  %place = getelementptr %wide, ptr %n, i64 0, i32 0, i64 %i
  %child = load ptr, ptr %place
  %none = icmp eq ptr %child, null
  br i1 %none, label %next, label %there
there:
  %of = call i64 @many(ptr %child)
  %with = add i64 %all, %of
  br label %next
next:
  %more = phi i64 [ %all, %loop ], [ %with, %there ]
  %after = add nuw nsw i64 %i, 1
  %last = icmp eq i64 %after, 200
  br i1 %last, label %done, label %loop
done:
  ret i64 %more
}

; What is called is short, if it has no safepoint: none comes before it either.
; CHECK-LABEL: define i64 @few(
; CHECK: loop:
; CHECK-NOT: curtail_safepoint_slow
; CHECK: done:
define i64 @few(ptr %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %after, %next ]
  %all = phi i64 [ 0, %entry ], [ %more, %next ]
  %place = getelementptr %node, ptr %n, i64 0, i32 0, i64 %i
  %child = load ptr, ptr %place
  %none = icmp eq ptr %child, null
  br i1 %none, label %next, label %there
there:
  %of = call i64 @look(ptr %child)
  %with = add i64 %all, %of
  br label %next
next:
  %more = phi i64 [ %all, %loop ], [ %with, %there ]
  %after = add nuw nsw i64 %i, 1
  %last = icmp eq i64 %after, 2
  br i1 %last, label %done, label %loop
done:
  ret i64 %more
}
