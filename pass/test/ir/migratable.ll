; Code that may go on on another thread: thread-local variables used across a safepoint are told.
; RUN: CURTAIL_PASS=bound=200,migratable=warn,report=/dev/stdout opt -passes=curtail-safepoints -disable-output %s 2>$scratch/said | FileCheck --check-prefix=REPORT %s
; RUN: FileCheck %s <$scratch/said
; RUN: not env CURTAIL_PASS=bound=200,migratable=error opt -passes=curtail-safepoints -disable-output %s 2>&1 | FileCheck --check-prefix=ERROR %s
; RUN: CURTAIL_PASS=bound=200,migratable=warn opt -passes=curtail-safepoints -S %s 2>/dev/null | FileCheck --check-prefix=ERRNO %s
; RUN: CURTAIL_PASS=bound=200 opt -passes=curtail-safepoints -disable-output %s 2>&1 | FileCheck --check-prefix=NOT --allow-empty %s

; CHECK-DAG: warning: curtail: both_sides (m.c:7): thread-local mine: used before and after a safepoint at m.c:6
; CHECK-DAG: warning: curtail: round_about: thread-local mine: used before and after a safepoint
; CHECK-DAG: warning: curtail: stores: thread-local mine: its address is stored, and not followed from there
; CHECK-DAG: warning: curtail: returns: thread-local mine: its address is returned, and not followed from there
; CHECK-NOT: curtail: fine
; ERROR: error: curtail: {{.*}}: thread-local mine:
; NOT-NOT: curtail:
; REPORT-DAG: "at":"m.c:7","function":"both_sides",{{.*}}"thread_local":"mine","thread_local_warning":"used before and after a safepoint at m.c:6"
; REPORT-DAG: "thread_local_warnings":4

@mine = thread_local(localexec) global i64 0
@other = thread_local(localexec) global i64 0
declare nonnull ptr @llvm.threadlocal.address.p0(ptr nonnull)
declare void @unseen()
declare i64 @strlen(ptr)

define void @both_sides() !dbg !5 {
  %p = call ptr @llvm.threadlocal.address.p0(ptr @mine), !dbg !6
  store i64 1, ptr %p, !dbg !6
  call void @unseen(), !dbg !7
  %q = call ptr @llvm.threadlocal.address.p0(ptr @mine), !dbg !8
  store i64 2, ptr %q, !dbg !8
  ret void, !dbg !8
}

define void @round_about(i64 %n, ptr %sink) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  store volatile i64 %i, ptr %sink
  %p = call ptr @llvm.threadlocal.address.p0(ptr @mine)
  store volatile i64 %i, ptr %p
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %exit, label %loop
exit:
  ret void
}

define void @stores(ptr %where) {
  %p = call ptr @llvm.threadlocal.address.p0(ptr @mine)
  %q = getelementptr i8, ptr %p, i64 4
  store ptr %q, ptr %where
  ret void
}

define ptr @returns() {
  %p = call ptr @llvm.threadlocal.address.p0(ptr @mine)
  ret ptr %p
}

; Another variable, no safepoint in between, or one that does not yield.
define void @fine(ptr %text) {
  %p = call ptr @llvm.threadlocal.address.p0(ptr @mine)
  store i64 1, ptr %p
  %n = call i64 @strlen(ptr %text)
  store i64 %n, ptr %p
  call void @unseen()
  %q = call ptr @llvm.threadlocal.address.p0(ptr @other)
  store i64 2, ptr %q
  ret void
}

define void @fine_held() {
  %p = call ptr @llvm.threadlocal.address.p0(ptr @mine)
  store i64 1, ptr %p
  call void @unseen()
  store i64 2, ptr %p
  ret void
}

; The address of errno, taken before a call and used behind it.
; ERRNO-LABEL: define i32 @fine_errno(
; ERRNO: add i32 {{.*}}, 1
; ERRNO: call void @unseen()
; ERRNO: add i32 {{.*}}, -1
; ERRNO: ret i32
define i32 @fine_errno() {
  %p = call ptr @__errno_location()
  call void @unseen()
  %e = load i32, ptr %p
  ret i32 %e
}
declare ptr @__errno_location()

!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2}
!0 = distinct !DICompileUnit(language: DW_LANG_C11, file: !1, emissionKind: LineTablesOnly)
!1 = !DIFile(filename: "m.c", directory: "/")
!2 = !{i32 2, !"Debug Info Version", i32 3}
!3 = !DISubroutineType(types: !4)
!4 = !{}
!5 = distinct !DISubprogram(name: "both_sides", scope: !1, file: !1, line: 4, type: !3, spFlags: DISPFlagDefinition, unit: !0)
!6 = !DILocation(line: 5, column: 1, scope: !5)
!7 = !DILocation(line: 6, column: 1, scope: !5)
!8 = !DILocation(line: 7, column: 1, scope: !5)
