; Counted loops are cut into chunks: nothing is added to their bodies.
; RUN: CURTAIL_PASS=bound=400 opt -passes=curtail-safepoints,verify -S < %s | FileCheck %s
; RUN: CURTAIL_PASS=kind=flag opt -passes=curtail-safepoints,verify -S < %s | FileCheck %s --check-prefix=FLAG
; RUN: CURTAIL_PASS=bound=20 opt -passes=curtail-safepoints,verify -S < %s | FileCheck %s --check-prefix=EQUAL

; The whole loop is charged on entry; what fits runs as it was. Only where it does not, a copy of it is
; cut, whose body compares its counter with the end of the chunk, and has no other new instruction.
; CHECK-LABEL: define void @counted(
; CHECK: entry:
; CHECK: mul i64
; CHECK: [[HAD:%.*]] = load i64, ptr
; CHECK: [[FITS:%.*]] = icmp ult i64 [[HAD]], [[TOTAL:%.*]]
; CHECK: br i1 [[FITS]], label %curtail.cut, label %curtail.fits
; CHECK: loop:
; CHECK-NEXT: phi i64 [ 0, %curtail.fits ]
; CHECK-NEXT: getelementptr
; CHECK-NEXT: store
; CHECK-NEXT: add
; CHECK-NEXT: icmp eq i64 %{{.*}}, %n
; CHECK-NEXT: br i1 %{{.*}}, label %exit, label %loop
; CHECK: curtail.next:
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: udiv i64
; CHECK: [[END:%.*]] = add i64 %{{.*}}, %{{.*}}
; CHECK-NEXT: sub i64
; CHECK: loop.curtail:
; CHECK-NEXT: phi i64
; CHECK-NEXT: getelementptr
; CHECK-NEXT: store
; CHECK-NEXT: add
; CHECK-NEXT: icmp eq i64 %{{.*}}, [[END]]
; CHECK-NEXT: br i1 %{{.*}}, label %curtail.through, label %loop.curtail
; A flag is looked at in each iteration, of which four are made one.
; FLAG-LABEL: define void @counted(
; FLAG: loop:
; FLAG: load volatile i32, ptr
; FLAG: next.3 = add
; FLAG-NOT: load volatile
; FLAG: ret void
define void @counted(ptr %p, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %at = getelementptr i64, ptr %p, i64 %i
  store i64 %i, ptr %at
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %exit, label %loop
exit:
  ret void
}

; A loop whose body charges for itself has a safepoint.
; CHECK-LABEL: define void @calling(
; CHECK: loop:
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: ret void
define void @charges(ptr %p) {
entry:
  %none = load i1, ptr %p
  br i1 %none, label %exit, label %loop
loop:
  %it = load volatile i64, ptr %p
  %done = icmp eq i64 %it, 0
  br i1 %done, label %exit, label %loop
exit:
  ret void
}

define void @calling(ptr %p, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %at = getelementptr i64, ptr %p, i64 %i
  call void @charges(ptr %at)
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %exit, label %loop
exit:
  ret void
}

; Rows are charged as they come; the loop around them has no safepoint.
; CHECK-LABEL: define void @matrix(
; CHECK: row:
; CHECK: icmp ult i64
; CHECK: br i1 %{{.*}}, label %curtail.cut, label %curtail.fits
; CHECK: row.end:
; CHECK-NOT: {{threadlocal|TPOFF}}
; CHECK: ret void
define void @matrix(ptr %p, i64 %rows, i64 %columns) {
entry:
  br label %row
row:
  %i = phi i64 [ 0, %entry ], [ %i.next, %row.end ]
  %base = mul i64 %i, %columns
  %line = getelementptr i64, ptr %p, i64 %base
  br label %loop
loop:
  %j = phi i64 [ 0, %row ], [ %next, %loop ]
  %at = getelementptr i64, ptr %line, i64 %j
  store i64 %j, ptr %at
  %next = add i64 %j, 1
  %done = icmp eq i64 %next, %columns
  br i1 %done, label %row.end, label %loop
row.end:
  %i.next = add i64 %i, 1
  %i.done = icmp eq i64 %i.next, %rows
  br i1 %i.done, label %exit, label %row
exit:
  ret void
}

; What is used behind a loop with a copy is of whichever was run, in exits and further on. A loop that
; is large, or holds what must stay one, has none.
; CHECK-LABEL: define i64 @used_behind(
; CHECK: loop:
; CHECK: exit:
; CHECK-NEXT: [[SUM:%.*]] = phi i64 {{.*}}[ %sum.next{{[.a-z0-9]*}}, %{{.*}} ], [ %sum.next{{[.a-z0-9]*}}, %{{.*}} ]
; CHECK: behind:
; CHECK-NEXT: add i64 [[SUM]], %n
; CHECK: loop.curtail:
define i64 @used_behind(ptr %p, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %sum = phi i64 [ 0, %entry ], [ %sum.next, %loop ]
  %at = getelementptr i64, ptr %p, i64 %i
  %it = load i64, ptr %at
  %sum.next = xor i64 %sum, %it
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %exit, label %loop
exit:
  %odd = trunc i64 %n to i1
  br i1 %odd, label %behind, label %out
behind:
  %more = add i64 %sum.next, %n
  ret i64 %more
out:
  ret i64 0
}

; The second loop begins where the first has stopped.
; CHECK-LABEL: define void @one_after_another(
; CHECK: second.preheader:
; CHECK-NEXT: [[FROM:%.*]] = phi i64 [ %i.next.curtail, %{{.*}} ], [ %i.next, %first ]
; CHECK: second:
; CHECK-NEXT: phi i64 {{.*}}[ [[FROM]], %curtail.fits
; CHECK: first.curtail:
; CHECK: second.curtail:
define void @one_after_another(ptr %p, ptr %q, i64 %n, i64 %m) {
entry:
  br label %first
first:
  %i = phi i64 [ 0, %entry ], [ %i.next, %first ]
  %at = getelementptr i64, ptr %p, i64 %i
  store i64 %i, ptr %at
  %i.next = add i64 %i, 1
  %i.done = icmp eq i64 %i.next, %n
  br i1 %i.done, label %second, label %first
second:
  %j = phi i64 [ %i.next, %first ], [ %j.next, %second ]
  %there = getelementptr i64, ptr %q, i64 %j
  store i64 %j, ptr %there
  %j.next = add i64 %j, 1
  %j.done = icmp eq i64 %j, %m
  br i1 %j.done, label %exit, label %second
exit:
  ret void
}

; A larger loop is not cut, and goes as far as the one before it.
; CHECK-LABEL: define void @as_far(
; CHECK: second.preheader:
; CHECK-NEXT: [[LEFT:%.*]] = phi i64 [ %it.curtail, %{{.*}} ], [ %it, %first ]
; CHECK: second:
; CHECK: icmp eq i64 %j.next, [[LEFT]]
; CHECK: first.curtail:
; CHECK-NOT: second.curtail:
define void @as_far(ptr %p, ptr %q, i64 %n) {
entry:
  br label %first
first:
  %i = phi i64 [ 0, %entry ], [ %i.next, %first ]
  %at = getelementptr i64, ptr %p, i64 %i
  %it = load volatile i64, ptr %at
  %i.next = add i64 %i, 1
  %i.done = icmp eq i64 %i.next, %n
  br i1 %i.done, label %second, label %first
second:
  %j = phi i64 [ 0, %first ], [ %j.next, %second ]
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  store volatile i64 %j, ptr %q
  %j.next = add i64 %j, 1
  %j.done = icmp eq i64 %j.next, %it
  br i1 %j.done, label %exit, label %second
exit:
  ret void
}

; CHECK-LABEL: define void @not_twice(
; CHECK-NOT: loop.curtail
; CHECK: ret void
define void @not_twice(ptr %p, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %at = getelementptr i64, ptr %p, i64 %i
  store i64 %i, ptr %at
  call void asm sideeffect "nop", ""() noduplicate
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %exit, label %loop
exit:
  ret void
}

; In a large loop nothing is copied.
; CHECK-LABEL: define void @within_much(
; CHECK-NOT: loop.curtail
; CHECK: ret void
declare ptr @malloc(i64)
define void @within_much(ptr %p, i64 %n) {
entry:
  br label %outer
outer:
  %m0 = call ptr @malloc(i64 8)
  %m1 = call ptr @malloc(i64 8)
  %m2 = call ptr @malloc(i64 8)
  %m3 = call ptr @malloc(i64 8)
  %m4 = call ptr @malloc(i64 8)
  %m5 = call ptr @malloc(i64 8)
  %m6 = call ptr @malloc(i64 8)
  %m7 = call ptr @malloc(i64 8)
  %m8 = call ptr @malloc(i64 8)
  %m9 = call ptr @malloc(i64 8)
  %m10 = call ptr @malloc(i64 8)
  %m11 = call ptr @malloc(i64 8)
  %m12 = call ptr @malloc(i64 8)
  %m13 = call ptr @malloc(i64 8)
  %m14 = call ptr @malloc(i64 8)
  %m15 = call ptr @malloc(i64 8)
  %m16 = call ptr @malloc(i64 8)
  %m17 = call ptr @malloc(i64 8)
  %m18 = call ptr @malloc(i64 8)
  %m19 = call ptr @malloc(i64 8)
  %m20 = call ptr @malloc(i64 8)
  %m21 = call ptr @malloc(i64 8)
  %m22 = call ptr @malloc(i64 8)
  %m23 = call ptr @malloc(i64 8)
  %m24 = call ptr @malloc(i64 8)
  %m25 = call ptr @malloc(i64 8)
  %m26 = call ptr @malloc(i64 8)
  %m27 = call ptr @malloc(i64 8)
  %m28 = call ptr @malloc(i64 8)
  %m29 = call ptr @malloc(i64 8)
  %m30 = call ptr @malloc(i64 8)
  %m31 = call ptr @malloc(i64 8)
  %m32 = call ptr @malloc(i64 8)
  %m33 = call ptr @malloc(i64 8)
  %m34 = call ptr @malloc(i64 8)
  %m35 = call ptr @malloc(i64 8)
  %m36 = call ptr @malloc(i64 8)
  %m37 = call ptr @malloc(i64 8)
  %m38 = call ptr @malloc(i64 8)
  %m39 = call ptr @malloc(i64 8)
  %m40 = call ptr @malloc(i64 8)
  %m41 = call ptr @malloc(i64 8)
  %m42 = call ptr @malloc(i64 8)
  %m43 = call ptr @malloc(i64 8)
  %m44 = call ptr @malloc(i64 8)
  %m45 = call ptr @malloc(i64 8)
  %m46 = call ptr @malloc(i64 8)
  %m47 = call ptr @malloc(i64 8)
  %m48 = call ptr @malloc(i64 8)
  %m49 = call ptr @malloc(i64 8)
  %m50 = call ptr @malloc(i64 8)
  %m51 = call ptr @malloc(i64 8)
  %m52 = call ptr @malloc(i64 8)
  %m53 = call ptr @malloc(i64 8)
  %m54 = call ptr @malloc(i64 8)
  %m55 = call ptr @malloc(i64 8)
  %m56 = call ptr @malloc(i64 8)
  %m57 = call ptr @malloc(i64 8)
  %m58 = call ptr @malloc(i64 8)
  %m59 = call ptr @malloc(i64 8)
  %m60 = call ptr @malloc(i64 8)
  %m61 = call ptr @malloc(i64 8)
  %m62 = call ptr @malloc(i64 8)
  %m63 = call ptr @malloc(i64 8)
  %m64 = call ptr @malloc(i64 8)
  %m65 = call ptr @malloc(i64 8)
  %m66 = call ptr @malloc(i64 8)
  %m67 = call ptr @malloc(i64 8)
  %m68 = call ptr @malloc(i64 8)
  %m69 = call ptr @malloc(i64 8)
  %m70 = call ptr @malloc(i64 8)
  %m71 = call ptr @malloc(i64 8)
  %m72 = call ptr @malloc(i64 8)
  %m73 = call ptr @malloc(i64 8)
  %m74 = call ptr @malloc(i64 8)
  %m75 = call ptr @malloc(i64 8)
  %m76 = call ptr @malloc(i64 8)
  %m77 = call ptr @malloc(i64 8)
  %m78 = call ptr @malloc(i64 8)
  %m79 = call ptr @malloc(i64 8)
  %m80 = call ptr @malloc(i64 8)
  %m81 = call ptr @malloc(i64 8)
  %m82 = call ptr @malloc(i64 8)
  %m83 = call ptr @malloc(i64 8)
  %m84 = call ptr @malloc(i64 8)
  %m85 = call ptr @malloc(i64 8)
  %m86 = call ptr @malloc(i64 8)
  %m87 = call ptr @malloc(i64 8)
  %m88 = call ptr @malloc(i64 8)
  %m89 = call ptr @malloc(i64 8)
  %m90 = call ptr @malloc(i64 8)
  %m91 = call ptr @malloc(i64 8)
  %m92 = call ptr @malloc(i64 8)
  %m93 = call ptr @malloc(i64 8)
  %m94 = call ptr @malloc(i64 8)
  %m95 = call ptr @malloc(i64 8)
  %m96 = call ptr @malloc(i64 8)
  %m97 = call ptr @malloc(i64 8)
  %m98 = call ptr @malloc(i64 8)
  %m99 = call ptr @malloc(i64 8)
  %m100 = call ptr @malloc(i64 8)
  %m101 = call ptr @malloc(i64 8)
  %m102 = call ptr @malloc(i64 8)
  %m103 = call ptr @malloc(i64 8)
  br label %loop
loop:
  %i = phi i64 [ 0, %outer ], [ %next, %loop ]
  %at = getelementptr i64, ptr %p, i64 %i
  store i64 %i, ptr %at
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %again, label %loop
again:
  %more = load volatile i1, ptr %p
  br i1 %more, label %outer, label %exit
exit:
  ret void
}

; A loop that goes on while its counter is equal ends where it is not: the value that it is compared
; with is not its last.
; EQUAL-LABEL: define void @while_equal(
; EQUAL: curtail.next:
; EQUAL: [[END:%.*]] = add i64 %{{.*}}, %{{.*}}
; EQUAL: loop.curtail:
; EQUAL: icmp ne i64 %{{.*}}, [[END]]
define void @while_equal(ptr %p) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 7, %entry ], [ %next, %loop ]
  %at = getelementptr i64, ptr %p, i64 %i
  call void asm sideeffect "nop", ""()
  %next = add i64 %i, 1
  %on = icmp eq i64 %next, 8
  br i1 %on, label %loop, label %exit
exit:
  ret void
}
