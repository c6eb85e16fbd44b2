; The first iteration of a loop that keeps the one around it from being stepped.
; RUN: opt -passes=curtail-safepoints,verify -S < %s | FileCheck %s
; RUN: CURTAIL_PASS=kind=flag opt -passes=curtail-safepoints,verify -S < %s | FileCheck %s --check-prefix=FLAG
; RUN: CURTAIL_PASS=bound=100 opt -passes=curtail-safepoints,verify -S < %s | FileCheck %s --check-prefix=SMALL

; A loop that may leave in its first iteration, in a counted one: that iteration is peeled off, and the
; rest has a safepoint before it. So the loop around it is stepped, and where the inner one leaves at
; once, nothing is charged.
; CHECK-LABEL: define i64 @naive(
; CHECK: {{^}}outer:
; CHECK-NOT: threadlocal
; CHECK: br i1 %{{.*}}, label %[[ON:.*]], label %[[STAY:.*]]
; CHECK: {{^}}[[STAY]]:
; CHECK-NEXT: add
; CHECK-NEXT: icmp
; CHECK-NEXT: br i1
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; FLAG-LABEL: define i64 @naive(
; FLAG: {{^}}outer:
; FLAG-NOT: load volatile
; FLAG: br i1 %{{.*}}, label %[[ON:.*]], label %[[STAY:.*]]
; FLAG: load volatile
; FLAG: {{^}}inner:
; Steps would be too few:
; SMALL-LABEL: define i64 @naive(
; SMALL-NOT: peel
; SMALL-LABEL: define i64 @waiting(
define i64 @naive(ptr %p, i64 %n, ptr %q, i64 %m) {
entry:
  br label %outer
outer:
  %i = phi i64 [ 0, %entry ], [ %i.next, %mismatch ]
  %from = getelementptr i8, ptr %p, i64 %i
  br label %inner
inner:
  %j = phi i64 [ 0, %outer ], [ %j.next, %matches ]
  %at = getelementptr i8, ptr %from, i64 %j
  %a = load i8, ptr %at
  %in = getelementptr i8, ptr %q, i64 %j
  %b = load i8, ptr %in
  %same = icmp eq i8 %a, %b
  br i1 %same, label %matches, label %mismatch
matches:
  %j.next = add i64 %j, 1
  %all = icmp eq i64 %j.next, %m
  br i1 %all, label %found, label %inner
mismatch:
  %i.next = add i64 %i, 1
  %done = icmp eq i64 %i.next, %n
  br i1 %done, label %none, label %outer
found:
  ret i64 %i
none:
  ret i64 -1
}

; Where iterations wait for each other, there is nothing to gain.
; CHECK-LABEL: define i64 @waiting(
; CHECK-NOT: peel
; CHECK: {{^}}outer:
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: {{^}}inner:
; CHECK-NOT: peel
; CHECK: {{^}}}
define i64 @waiting(ptr %p, i64 %n, i64 %m) {
entry:
  br label %outer
outer:
  %i = phi i64 [ 0, %entry ], [ %i.next, %escaped ]
  %at = getelementptr double, ptr %p, i64 %i
  %c = load double, ptr %at
  br label %inner
inner:
  %j = phi i64 [ 0, %outer ], [ %j.next, %stays ]
  %z = phi double [ 0.0, %outer ], [ %z.next, %stays ]
  %square = fmul double %z, %z
  %z.next = fadd double %square, %c
  %far = fcmp ogt double %z.next, 4.0
  br i1 %far, label %escaped, label %stays
stays:
  %j.next = add i64 %j, 1
  %all = icmp eq i64 %j.next, %m
  br i1 %all, label %found, label %inner
escaped:
  %i.next = add i64 %i, 1
  %done = icmp eq i64 %i.next, %n
  br i1 %done, label %none, label %outer
found:
  ret i64 %i
none:
  ret i64 -1
}
