# What every program of these tests has: the thread-local block, the slow path, a way in; macros.
        .section .tbss,"awT",@nobits
        .globl  curtail_safepoint
        .type   curtail_safepoint, @object
        .size   curtail_safepoint, 64
        .p2align 3
curtail_safepoint: .zero 64
        .text
        .globl  curtail_safepoint_slow
        .type   curtail_safepoint_slow, @function
curtail_safepoint_slow:
        ret
        .size   curtail_safepoint_slow, . - curtail_safepoint_slow

# check COST: a safepoint of kind clock.
.macro check cost
        subq    $\cost, %fs:curtail_safepoint@tpoff
        js      91f
92:
        jmp     93f
91:     call    curtail_safepoint_slow
        jmp     92b
93:
.endm

# function NAME … end NAME
.macro function name
        .globl  \name
        .type   \name, @function
\name:
.endm
.macro end name
        .size   \name, . - \name
.endm

# instrumented NAME: the pass's note on it, with a bound of 400.
.macro instrumented name
        .pushsection .curtail.functions,"aw",@progbits
        .long   \name - .
        .long   8
        .long   400 << 8
        .popsection
.endm
# noted COUNT, DEPTH, EDGES, COST: the loop that follows runs at most so often.
.macro noted count, depth=1, edges=1, cost=1
77:
        .pushsection .curtail.loops,"",@progbits
        .quad   77b
        .quad   \count
        .long   \cost
        .short  1
        .byte   \depth, \edges
        .popsection
.endm
# Costs N units.
.macro work n
        .rept \n
        addl    $1, %eax
        .endr
.endm
        .text
function _start
        call    f
        hlt
end _start
