; Rust holds the address of a thread-local while LocalKey::with runs a closure: from its first use in
; that call, which line tables tell, to its last. Between two calls it is not held.
; RUN: CURTAIL_PASS=bound=200 opt -passes=curtail-safepoints -S < %s | FileCheck %s

@KEPT = internal thread_local(localexec) global i64 0
declare nonnull ptr @llvm.threadlocal.address.p0(ptr nonnull)
declare ptr @initialise(ptr)

; One call around the loop: none in it.
; CHECK-LABEL: define void @one_call(
; CHECK-NOT: curtail_safepoint_slow
; CHECK: {{^[}]}}
define void @one_call(i64 %n, ptr %to) !dbg !10 {
entry:
  %p = call ptr @llvm.threadlocal.address.p0(ptr @KEPT)
  store i64 -1, ptr %p, !dbg !20
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  store volatile i64 %i, ptr %to
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %exit, label %loop
exit:
  store i64 0, ptr %p, !dbg !20
  ret void
}

; One before it and one behind.
; CHECK-LABEL: define void @two_calls(
; CHECK: curtail_safepoint_slow
; CHECK: {{^[}]}}
define void @two_calls(i64 %n, ptr %to) !dbg !11 {
entry:
  %p = call ptr @llvm.threadlocal.address.p0(ptr @KEPT)
  store i64 -1, ptr %p, !dbg !21
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  store volatile i64 %i, ptr %to
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %exit, label %loop
exit:
  store i64 0, ptr %p, !dbg !22
  ret void
}

; One in each round, of a variable that may have to be initialised; rotated, the loop tests that at
; its end. The address is taken where the call begins, and the test at the end takes it for itself.
; CHECK-LABEL: define void @each_round(
; CHECK: loop:
; CHECK: curtail_safepoint_slow
; CHECK: loop.body:
; CHECK: [[BASE:%.*]] = call ptr @llvm.threadlocal.address.p0(ptr @KEPT)
; CHECK-NOT: curtail_safepoint_slow
; CHECK: phi ptr [ [[BASE]], %loop.body
; CHECK-NOT: curtail_safepoint_slow
; CHECK: {{^[}]}}
define void @each_round(i64 %n, ptr %to) !dbg !12 {
entry:
  %p = call ptr @llvm.threadlocal.address.p0(ptr @KEPT)
  %q = getelementptr i8, ptr %p, i64 8
  %s0 = load i8, ptr %q, !dbg !23
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %have ]
  %s = phi i8 [ %s0, %entry ], [ %s1, %have ]
  store volatile i64 %i, ptr %to
  br label %loop.body
loop.body:
  %alive = icmp eq i8 %s, 1
  br i1 %alive, label %have, label %make
make:
  %made = call ptr @initialise(ptr %p), !dbg !23
  br label %have
have:
  %r = phi ptr [ %p, %loop.body ], [ %made, %make ]
  store i64 %i, ptr %r, !dbg !23
  %next = add i64 %i, 1
  %s1 = load i8, ptr %q, !dbg !23
  %done = icmp eq i64 %next, %n
  br i1 %done, label %exit, label %loop
exit:
  ret void
}

; A store whose line was lost may belong to any call.
; CHECK-LABEL: define void @line_lost(
; CHECK-NOT: curtail_safepoint_slow
; CHECK: {{^[}]}}
define void @line_lost(i64 %n, ptr %to) !dbg !13 {
entry:
  %p = call ptr @llvm.threadlocal.address.p0(ptr @KEPT)
  store i64 -1, ptr %p, !dbg !24
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  store volatile i64 %i, ptr %to
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %exit, label %loop
exit:
  store i64 0, ptr %p
  ret void
}

; Not inlined, it has the address from a call: nothing in it may yield, nor what it calls.
; CHECK-LABEL: define void @"_ZN3std6thread5local17LocalKey$LT$T$GT$4with17h0123456789abcdefE"(
; CHECK-NOT: curtail_safepoint_slow
; CHECK: add i32 {{%.*}}, 1
; CHECK: call ptr %inner
; CHECK: add i32 {{%.*}}, -1
; CHECK-NOT: curtail_safepoint_slow
; CHECK: {{^[}]}}
define void @"_ZN3std6thread5local17LocalKey$LT$T$GT$4with17h0123456789abcdefE"(ptr %inner, i64 %n) {
entry:
  %p = call ptr %inner(ptr null)
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  store volatile i64 %i, ptr %p
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %exit, label %loop
exit:
  ret void
}

!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!1, !2}
!0 = distinct !DICompileUnit(language: DW_LANG_Rust, file: !3, isOptimized: true, runtimeVersion: 0, emissionKind: LineTablesOnly)
!1 = !{i32 2, !"Debug Info Version", i32 3}
!2 = !{i32 8, !"PIC Level", i32 2}
!3 = !DIFile(filename: "r.rs", directory: "/")
!4 = !DISubroutineType(types: !5)
!5 = !{}
!6 = distinct !DISubprogram(name: "with", linkageName: "_ZN3std6thread5local17LocalKey$LT$T$GT$4with17h0123456789abcdefE", file: !3, line: 1, type: !4, unit: !0, spFlags: DISPFlagDefinition)
!10 = distinct !DISubprogram(name: "one_call", file: !3, line: 2, type: !4, unit: !0, spFlags: DISPFlagDefinition)
!11 = distinct !DISubprogram(name: "two_calls", file: !3, line: 3, type: !4, unit: !0, spFlags: DISPFlagDefinition)
!12 = distinct !DISubprogram(name: "each_round", file: !3, line: 4, type: !4, unit: !0, spFlags: DISPFlagDefinition)
!13 = distinct !DISubprogram(name: "line_lost", file: !3, line: 5, type: !4, unit: !0, spFlags: DISPFlagDefinition)
!20 = !DILocation(line: 1, scope: !6, inlinedAt: !30)
!21 = !DILocation(line: 1, scope: !6, inlinedAt: !31)
!22 = !DILocation(line: 1, scope: !6, inlinedAt: !32)
!23 = !DILocation(line: 1, scope: !6, inlinedAt: !33)
!24 = !DILocation(line: 1, scope: !6, inlinedAt: !34)
!30 = distinct !DILocation(line: 20, scope: !10)
!31 = distinct !DILocation(line: 30, scope: !11)
!32 = distinct !DILocation(line: 31, scope: !11)
!33 = distinct !DILocation(line: 40, scope: !12)
!34 = distinct !DILocation(line: 50, scope: !13)
