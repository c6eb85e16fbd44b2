; The keep-out list: names and globs, mangled and readable; what was inlined from a function on it; the
; built-in list; bad lines.
; RUN: printf '# comment\n\nplain_one # why\nglob_?_[ab]*\nns::inner::work()\n_ZN5other*\nx::listed\nmine::Pool::take\n<a::S as b::T>::m\n' >$scratch/list
; RUN: CURTAIL_PASS=bound=200,keep-out=$scratch/list opt -passes=curtail-keep-out,curtail-safepoints -S < %s | FileCheck %s
; RUN: printf 'fine\n\n[oops\n' >$scratch/bad
; RUN: not env CURTAIL_PASS=keep-out=$scratch/bad opt -passes=curtail-safepoints -S %s 2>&1 | FileCheck --check-prefix=BAD %s
; RUN: not env CURTAIL_PASS=keep-out=$scratch/none opt -passes=curtail-safepoints -S %s 2>&1 | FileCheck --check-prefix=NONE %s

; BAD: bad: line 3: {{.*}}: [oops
; NONE: none: No such file

; CHECK-LABEL: define void @plain_one(
; CHECK-SAME: [[OUT:#[0-9]+]]
; CHECK-NOT: curtail_safepoint_slow
; CHECK: store
define void @plain_one(ptr %p) {
  br label %loop
loop:
  store volatile i64 1, ptr %p
  br label %loop
}

; CHECK-LABEL: define void @plain_one_more(
; CHECK: curtail_safepoint_slow
define void @plain_one_more(ptr %p) {
  br label %loop
loop:
  store volatile i64 1, ptr %p
  br label %loop
}

; CHECK-LABEL: define void @glob_7_beta(
; CHECK-NOT: curtail_safepoint_slow
; CHECK: store
define void @glob_7_beta(ptr %p) {
  br label %loop
loop:
  store volatile i64 1, ptr %p
  br label %loop
}

; CHECK-LABEL: define void @_ZN2ns5inner4workEv(
; CHECK-NOT: curtail_safepoint_slow
; CHECK: store
define void @_ZN2ns5inner4workEv(ptr %p) {
  br label %loop
loop:
  store volatile i64 1, ptr %p
  br label %loop
}

; CHECK-LABEL: define void @_ZN5other1fEv(
; CHECK-NOT: curtail_safepoint_slow
; CHECK: store
define void @_ZN5other1fEv(ptr %p) {
  br label %loop
loop:
  store volatile i64 1, ptr %p
  br label %loop
}

; Rust, in both manglings.
; CHECK-LABEL: define void @_RNvNtCs1234_4mine4Pool4take(
; CHECK-NOT: curtail_safepoint_slow
; CHECK: store
define void @_RNvNtCs1234_4mine4Pool4take(ptr %p) {
  br label %loop
loop:
  store volatile i64 1, ptr %p
  br label %loop
}

; CHECK-LABEL: define void @"_ZN29_$LT$a..S$u20$as$u20$b..T$GT$1m17h0123456789abcdefE"(
; CHECK-NOT: curtail_safepoint_slow
; CHECK: store
define void @"_ZN29_$LT$a..S$u20$as$u20$b..T$GT$1m17h0123456789abcdefE"(ptr %p) {
  br label %loop
loop:
  store volatile i64 1, ptr %p
  br label %loop
}

; Without a list: what sanitizers call.
; CHECK-LABEL: define void @__asan_poison(
; CHECK-NOT: curtail_safepoint_slow
; CHECK: store
define void @__asan_poison(ptr %p) {
  br label %loop
loop:
  store volatile i64 1, ptr %p
  br label %loop
}

; The first loop was inlined from a function on the list, the second was not.
; CHECK-LABEL: define void @inlined(
; CHECK-NOT: curtail_safepoint_slow
; CHECK: second:
; CHECK: curtail_safepoint_slow
define void @inlined(ptr %p, i64 %n) !dbg !5 {
entry:
  br label %first, !dbg !9
first:
  %i = phi i64 [ 0, %entry ], [ %i1, %first ], !dbg !8
  store volatile i64 1, ptr %p, !dbg !8
  %i1 = add i64 %i, 1, !dbg !8
  %c = icmp eq i64 %i1, %n, !dbg !8
  br i1 %c, label %second, label %first, !dbg !8
second:
  store volatile i64 1, ptr %p, !dbg !9
  br label %second, !dbg !9
}

; CHECK: attributes [[OUT]] = { {{.*}}noinline

!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2}
!0 = distinct !DICompileUnit(language: DW_LANG_Rust, file: !1, emissionKind: LineTablesOnly)
!1 = !DIFile(filename: "a.rs", directory: "/")
!2 = !{i32 2, !"Debug Info Version", i32 3}
!3 = !DISubroutineType(types: !4)
!4 = !{}
!5 = distinct !DISubprogram(name: "inlined", linkageName: "inlined", scope: !1, file: !1, line: 1, type: !3, spFlags: DISPFlagDefinition, unit: !0)
!6 = distinct !DISubprogram(name: "listed", linkageName: "_RNvCs1234_1x6listed", scope: !1, file: !1, line: 9, type: !3, spFlags: DISPFlagDefinition, unit: !0)
!7 = distinct !DILocation(line: 2, column: 1, scope: !5)
!8 = !DILocation(line: 10, column: 1, scope: !6, inlinedAt: !7)
!9 = !DILocation(line: 3, column: 1, scope: !5)
