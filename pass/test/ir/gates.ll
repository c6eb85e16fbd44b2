; Small loops that may leave early are gated: on the back edge the lower bits of a counter say when to
; look. Nothing is computed before the loop.
; RUN: CURTAIL_PASS=bound=600 opt -passes=curtail-safepoints,verify -S < %s | FileCheck %s
; RUN: CURTAIL_PASS=kind=flag,bound=600 opt -passes=curtail-safepoints,verify -S < %s | FileCheck %s --check-prefix=FLAG

; Comparisons of strings, each from its beginning, in a loop that cannot be counted. Four iterations in
; one, with the exits of each; 300 units are eight of these.
; CHECK-LABEL: define void @compare(
; CHECK: word:
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: br label %letter
; CHECK: letter:
; CHECK: %i = phi i64 [ 0, %{{.*}} ], [ %next.3, %{{.*}} ]
; CHECK-NOT: sub
; CHECK: more.3:
; CHECK: br i1 %{{.*}}, label %done, label %[[EDGE:[[:alnum:]_.]+]]
; CHECK: {{^}}[[EDGE]]:
; CHECK-NEXT: [[LOW:%.*]] = and i64 %next.3, 28
; CHECK-NEXT: icmp eq i64 [[LOW]], 0
; CHECK-NEXT: br i1 %{{.*}}, label %{{.*}}, label %{{.*}}, !prof
; CHECK: asm sideeffect "subq
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; FLAG-LABEL: define void @compare(
; FLAG: and i64 %next.3, 28
; FLAG-NEXT: icmp eq
; FLAG-NEXT: br
; FLAG: load volatile i32
define void @compare(ptr %words, ptr %other) {
entry:
  br label %word
word:
  %cursor = phi ptr [ %words, %entry ], [ %after, %done ]
  %w = load ptr, ptr %cursor
  br label %letter
letter:
  %i = phi i64 [ 0, %word ], [ %next, %more ]
  %at = getelementptr i8, ptr %w, i64 %i
  %a = load i8, ptr %at
  %bt = getelementptr i8, ptr %other, i64 %i
  %b = load i8, ptr %bt
  %same = icmp eq i8 %a, %b
  br i1 %same, label %more, label %done
more:
  %next = add i64 %i, 1
  %ends = icmp eq i8 %a, 0
  br i1 %ends, label %done, label %letter
done:
  %after = getelementptr ptr, ptr %cursor, i64 1
  %last = icmp eq ptr %w, %other
  br i1 %last, label %exit, label %word
exit:
  ret void
}

; Any step will do: the bits from the step's lowest on take all their values in a period. Two
; iterations in one, of 24 bytes each, are 3 << 4; eight of these are 300 units.
; CHECK-LABEL: define void @find(
; CHECK: and i64 %{{.*}}, 112
; CHECK-NEXT: icmp eq i64 %{{.*}}, 0
define void @find(ptr %lists, i64 %key) {
entry:
  br label %list
list:
  %cursor = phi ptr [ %lists, %entry ], [ %after, %done ]
  %first = load ptr, ptr %cursor
  br label %item
item:
  %at = phi ptr [ %first, %list ], [ %next, %more ]
  %k = load volatile i64, ptr %at
  %k2 = load volatile i64, ptr %at
  %k3 = load volatile i64, ptr %at
  %k4 = load volatile i64, ptr %at
  %k5 = load volatile i64, ptr %at
  %k6 = load volatile i64, ptr %at
  %k7 = load volatile i64, ptr %at
  %k8 = load volatile i64, ptr %at
  %k9 = load volatile i64, ptr %at
  %k10 = load volatile i64, ptr %at
  %found = icmp eq i64 %k, %key
  br i1 %found, label %done, label %more
more:
  %next = getelementptr i8, ptr %at, i64 24
  %ends = icmp eq i64 %k2, 0
  br i1 %ends, label %done, label %item
done:
  %after = getelementptr ptr, ptr %cursor, i64 1
  %last = icmp eq ptr %first, null
  br i1 %last, label %exit, label %list
exit:
  ret void
}

; Without a counter there is no gate.
; CHECK-LABEL: define i64 @walk(
; CHECK-NOT: and i64
; CHECK: ret i64
define i64 @walk(ptr %list) {
entry:
  br label %loop
loop:
  %at = phi ptr [ %list, %entry ], [ %next, %loop ]
  %next = load ptr, ptr %at
  %done = icmp eq ptr %next, null
  br i1 %done, label %exit, label %loop
exit:
  %result = ptrtoint ptr %at to i64
  ret i64 %result
}
