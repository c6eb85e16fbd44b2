//! The context that a signal interrupted, as the kernel saved it and will restore it.

use std::ops::Range;
use std::ptr;

/// Bytes below the stack pointer that leaf functions may use (System V ABI, AMD64, §3.2.2).
const RED_ZONE: usize = 128;
/// Stack that a yield needs, with room to spare: saved vector registers (2.1 KiB with AVX-512), the
/// hook, the switch.
const ROOM: usize = 8 * 1024;

/// Marks a frame with an extended state behind the 512 bytes that every processor has.
const FP_XSTATE_MAGIC1: u32 = 0x4650_5853;
/// Where the kernel leaves word of it (`struct _fpx_sw_bytes`).
const SOFTWARE_BYTES: usize = 464;
/// The extended state's header: which components are not in their initial state.
const XSTATE_BV: usize = 512;
/// The abridged tag word: which x87 registers are in use.
const TAGS: usize = 4;
const X87: u64 = 1 << 0;
/// AMX's configuration and tiles, and the registers of APX.
const NOT_SAVED: u64 = 1 << 17 | 1 << 18 | 1 << 19;

unsafe extern "C" {
    /// `crates/fiber/native/stub.S`. Not to be called.
    fn curtail_safepoint_land();
}

/// The interrupted context.
pub(super) struct Interrupted(*mut libc::ucontext_t);

impl Interrupted {
    /// # Safety
    /// `context` is what the kernel gave an SA_SIGINFO handler, which has not returned yet.
    pub(super) unsafe fn new(context: *mut libc::c_void) -> Self {
        Self(context.cast())
    }

    fn register(&self, index: libc::c_int) -> usize {
        // SAFETY: valid by the contract of `new`.
        unsafe { (*self.0).uc_mcontext.gregs[index as usize] as usize }
    }

    /// Of the instruction that would be next.
    pub(super) fn address(&self) -> usize {
        self.register(libc::REG_RIP)
    }

    /// Whether it ran on `stack`, with room for a yield.
    pub(super) fn has_room(&self, stack: &Range<usize>) -> bool {
        let at = self.register(libc::REG_RSP);
        at <= stack.end && at.checked_sub(ROOM).is_some_and(|low| low >= stack.start)
    }

    /// Whether registers are in use that the stub does not save.
    pub(super) fn has_unsaved_registers(&self) -> bool {
        // SAFETY: the kernel's frame, in the layout of FXSAVE (512 bytes), and of XSAVE where the
        // mark says so; null where there was no floating-point state to save.
        unsafe {
            let area: *const u8 = (*self.0).uc_mcontext.fpregs.cast();
            if area.is_null() {
                return false;
            }
            let mark = ptr::read_unaligned(area.add(SOFTWARE_BYTES).cast::<u32>());
            let in_use = match mark {
                FP_XSTATE_MAGIC1 => ptr::read_unaligned(area.add(XSTATE_BV).cast::<u64>()),
                _ => X87,
            };
            in_use & NOT_SAVED != 0 || (in_use & X87 != 0 && *area.add(TAGS) != 0)
        }
    }

    /// Makes the thread go on in the stub, which comes back to the interrupted instruction after a
    /// yield. There must be [room](Self::has_room).
    pub(super) fn land(&mut self) {
        let address = self.address();
        let top = self.register(libc::REG_RSP) - RED_ZONE - size_of::<usize>();
        // SAFETY: the word lies below all that the interrupted code uses of its stack, which has
        // room; the context is ours until the handler returns.
        unsafe {
            ptr::write_unaligned(top as *mut usize, address);
            let registers = &mut (*self.0).uc_mcontext.gregs;
            registers[libc::REG_RSP as usize] = top as libc::greg_t;
            registers[libc::REG_RIP as usize] =
                curtail_safepoint_land as *const () as usize as libc::greg_t;
        }
    }
}
