; The dispatch of an interpreter with computed gotos stays a small block of its own, which code
; generation copies into each handler: the safepoints are in the handlers, and do not leave them empty
; behind.
; RUN: CURTAIL_PASS=bound=400 opt -passes=curtail-safepoints,verify -S < %s | FileCheck %s

; CHECK-LABEL: define i64 @run(
; CHECK: dispatch:
; CHECK-NOT: {{threadlocal|TPOFF}}
; CHECK: indirectbr
; CHECK: add:
; CHECK: call i8 asm sideeffect "subq $$5, %fs:curtail_safepoint@TPOFF
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: call void asm sideeffect "", ""()
; CHECK-NEXT: br label %join
; CHECK: sub:
; CHECK: call i8 asm sideeffect "subq $$7, %fs:curtail_safepoint@TPOFF
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: call void asm sideeffect "", ""()
; CHECK-NEXT: br label %join
; CHECK: {{^}}halt:
; CHECK-NEXT: phi i64
; CHECK-NEXT: ret i64
@table = internal constant [3 x ptr] [ptr blockaddress(@run, %add), ptr blockaddress(@run, %sub), ptr blockaddress(@run, %halt)]

define i64 @run(ptr %code) {
entry:
  br label %dispatch
dispatch:
  %pc = phi ptr [ %code, %entry ], [ %pc.next, %join ]
  %acc = phi i64 [ 0, %entry ], [ %acc.next, %join ]
  %op = load i64, ptr %pc
  %slot = getelementptr [3 x ptr], ptr @table, i64 0, i64 %op
  %to = load ptr, ptr %slot
  indirectbr ptr %to, [label %add, label %sub, label %halt]
add:
  %pc.add = getelementptr i64, ptr %pc, i64 1
  %more = add i64 %acc, 3
  br label %join
sub:
  %offset = load i64, ptr %pc
  %pc.sub = getelementptr i64, ptr %pc, i64 %offset
  %less = sub i64 %acc, 1
  br label %join
join:
  %pc.next = phi ptr [ %pc.add, %add ], [ %pc.sub, %sub ]
  %acc.next = phi i64 [ %more, %add ], [ %less, %sub ]
  br label %dispatch
halt:
  ret i64 %acc
}

; One comes to the target of a computed goto from elsewhere, too.
; CHECK-LABEL: define i64 @shared(
; CHECK: {{^}}add:
; CHECK: call i8 asm sideeffect "subq $${{[0-9]+}}, %fs:curtail_safepoint@TPOFF
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: call void asm sideeffect "", ""()
; CHECK-NEXT: br label %dispatch
; CHECK: {{^}}halt:
; CHECK-NEXT: phi i64
; CHECK-NEXT: ret i64
@shared.table = internal constant [2 x ptr] [ptr blockaddress(@shared, %add), ptr blockaddress(@shared, %halt)]

define i64 @shared(ptr %code, i1 %any) {
entry:
  br i1 %any, label %dispatch, label %halt
dispatch:
  %pc = phi ptr [ %code, %entry ], [ %pc.next, %add ]
  %acc = phi i64 [ 0, %entry ], [ %more, %add ]
  %op = load i64, ptr %pc
  %slot = getelementptr [2 x ptr], ptr @shared.table, i64 0, i64 %op
  %to = load ptr, ptr %slot
  indirectbr ptr %to, [label %add, label %halt]
add:
  %pc.next = getelementptr i64, ptr %pc, i64 %op
  %more = xor i64 %acc, %op
  br label %dispatch
halt:
  %result = phi i64 [ 0, %entry ], [ %acc, %dispatch ]
  ret i64 %result
}
