; Where a recursion's safepoints go: on the way to its calls, outside of loops. What may come behind its calls,
; and how activations share the bound.
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

; What comes behind the last call of a recursion may not take long: so many activations may return in a row.
; Divisions, 20 units here.
; CHECK-LABEL: define i64 @tree(
; CHECK: both:
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: call i64 @tree(
; CHECK: call i64 @tree(
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: ret i64
define i64 @tree(ptr %node, i64 %y) noinline {
entry:
  %leaf = icmp eq ptr %node, null
  br i1 %leaf, label %exit, label %both
both:
  %left = load ptr, ptr %node
  %a = call i64 @tree(ptr %left, i64 %y)
  %place = getelementptr ptr, ptr %node, i64 1
  %right = load ptr, ptr %place
  %b = call i64 @tree(ptr %right, i64 %y)
  %sum = add i64 %a, %b
  %d0 = sdiv i64 %sum, %y
  %d1 = sdiv i64 %d0, %y
  ret i64 %d1
exit:
  ret i64 1
}

; CHECK-LABEL: define i64 @list(
; CHECK: call i64 @list(
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: ret i64
define i64 @list(ptr %node, i64 %y) noinline {
entry:
  %last = icmp eq ptr %node, null
  br i1 %last, label %exit, label %more
more:
  %next = load ptr, ptr %node
  %sum = call i64 @list(ptr %next, i64 %y)
  %d0 = sdiv i64 %sum, %y
  %d1 = sdiv i64 %d0, %y
  ret i64 %d1
exit:
  ret i64 1
}

; Where an activation may take long without a safepoint, several of them in a row have some between them.
; CHECK-LABEL: define i64 @long_leaves(
; CHECK: more:
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: call i64 @long_leaves(
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: call i64 @long_leaves(
; CHECK: ret i64
define i64 @long_leaves(ptr %node, i64 %x) noinline {
entry:
  %leaf = icmp eq ptr %node, null
  br i1 %leaf, label %end, label %more
more:
  %next = load ptr, ptr %node
  %a = call i64 @long_leaves(ptr %next, i64 %x)
  %b = call i64 @long_leaves(ptr %next, i64 %a)
  %c = call i64 @long_leaves(ptr %next, i64 %b)
  %d = call i64 @long_leaves(ptr %next, i64 %c)
  %e = call i64 @long_leaves(ptr %next, i64 %d)
  %f = call i64 @long_leaves(ptr %next, i64 %e)
  %g = call i64 @long_leaves(ptr %next, i64 %f)
  %h = call i64 @long_leaves(ptr %next, i64 %g)
  ret i64 %h
end:
  %m0 = mul i64 %x, 3
  %n0 = xor i64 %m0, 1
  %m1 = mul i64 %n0, 3
  %n1 = xor i64 %m1, 2
  %m2 = mul i64 %n1, 3
  %n2 = xor i64 %m2, 3
  %m3 = mul i64 %n2, 3
  %n3 = xor i64 %m3, 4
  %m4 = mul i64 %n3, 3
  %n4 = xor i64 %m4, 5
  %m5 = mul i64 %n4, 3
  %n5 = xor i64 %m5, 6
  %m6 = mul i64 %n5, 3
  %n6 = xor i64 %m6, 7
  %m7 = mul i64 %n6, 3
  %n7 = xor i64 %m7, 8
  %m8 = mul i64 %n7, 3
  %n8 = xor i64 %m8, 9
  %m9 = mul i64 %n8, 3
  %n9 = xor i64 %m9, 10
  %m10 = mul i64 %n9, 3
  %n10 = xor i64 %m10, 11
  %m11 = mul i64 %n10, 3
  %n11 = xor i64 %m11, 12
  %m12 = mul i64 %n11, 3
  %n12 = xor i64 %m12, 13
  %m13 = mul i64 %n12, 3
  %n13 = xor i64 %m13, 14
  %m14 = mul i64 %n13, 3
  %n14 = xor i64 %m14, 15
  %m15 = mul i64 %n14, 3
  %n15 = xor i64 %m15, 16
  %m16 = mul i64 %n15, 3
  %n16 = xor i64 %m16, 17
  %m17 = mul i64 %n16, 3
  %n17 = xor i64 %m17, 18
  %m18 = mul i64 %n17, 3
  %n18 = xor i64 %m18, 19
  %m19 = mul i64 %n18, 3
  %n19 = xor i64 %m19, 20
  %m20 = mul i64 %n19, 3
  %n20 = xor i64 %m20, 21
  %m21 = mul i64 %n20, 3
  %n21 = xor i64 %m21, 22
  %m22 = mul i64 %n21, 3
  %n22 = xor i64 %m22, 23
  %m23 = mul i64 %n22, 3
  %n23 = xor i64 %m23, 24
  %m24 = mul i64 %n23, 3
  %n24 = xor i64 %m24, 25
  %m25 = mul i64 %n24, 3
  %n25 = xor i64 %m25, 26
  %m26 = mul i64 %n25, 3
  %n26 = xor i64 %m26, 27
  %m27 = mul i64 %n26, 3
  %n27 = xor i64 %m27, 28
  %m28 = mul i64 %n27, 3
  %n28 = xor i64 %m28, 29
  %m29 = mul i64 %n28, 3
  %n29 = xor i64 %m29, 30
  %m30 = mul i64 %n29, 3
  %n30 = xor i64 %m30, 31
  %m31 = mul i64 %n30, 3
  %n31 = xor i64 %m31, 32
  %m32 = mul i64 %n31, 3
  %n32 = xor i64 %m32, 33
  %m33 = mul i64 %n32, 3
  %n33 = xor i64 %m33, 34
  %m34 = mul i64 %n33, 3
  %n34 = xor i64 %m34, 35
  %m35 = mul i64 %n34, 3
  %n35 = xor i64 %m35, 36
  %m36 = mul i64 %n35, 3
  %n36 = xor i64 %m36, 37
  %m37 = mul i64 %n36, 3
  %n37 = xor i64 %m37, 38
  %m38 = mul i64 %n37, 3
  %n38 = xor i64 %m38, 39
  %m39 = mul i64 %n38, 3
  %n39 = xor i64 %m39, 40
  %m40 = mul i64 %n39, 3
  %n40 = xor i64 %m40, 41
  %m41 = mul i64 %n40, 3
  %n41 = xor i64 %m41, 42
  %m42 = mul i64 %n41, 3
  %n42 = xor i64 %m42, 43
  %m43 = mul i64 %n42, 3
  %n43 = xor i64 %m43, 44
  %m44 = mul i64 %n43, 3
  %n44 = xor i64 %m44, 45
  %m45 = mul i64 %n44, 3
  %n45 = xor i64 %m45, 46
  %m46 = mul i64 %n45, 3
  %n46 = xor i64 %m46, 47
  %m47 = mul i64 %n46, 3
  %n47 = xor i64 %m47, 48
  %m48 = mul i64 %n47, 3
  %n48 = xor i64 %m48, 49
  %m49 = mul i64 %n48, 3
  %n49 = xor i64 %m49, 50
  ret i64 %n49
}
