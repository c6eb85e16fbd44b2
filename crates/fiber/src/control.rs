//! The floating-point control words.

/// The control words of a stack that is to be left: the ABI has callees preserve them, and others
/// get its defaults. (A safepoint's stub does the same for pre-emptions.)
#[derive(Debug)]
pub struct ControlWords {
    mxcsr: u32,
    x87: u16,
    own: bool,
}

impl ControlWords {
    const DEFAULT: Self = Self { mxcsr: 0x1f80, x87: 0x37f, own: false };

    /// Puts them away, where they are not the defaults, and sets those.
    #[inline]
    #[must_use]
    pub fn put_away() -> Self {
        let (mut mxcsr, mut x87) = (0_u32, 0_u16);
        // SAFETY: stores two control words to our own variables.
        unsafe {
            std::arch::asm!("stmxcsr [{}]", "fnstcw [{}]", in(reg) &raw mut mxcsr,
                in(reg) &raw mut x87, options(nostack, preserves_flags));
        }
        // The low six bits are sticky status, not control.
        let own = mxcsr & !0x3f != Self::DEFAULT.mxcsr || x87 != Self::DEFAULT.x87;
        if own {
            Self::DEFAULT.load();
        }
        Self { mxcsr, x87, own }
    }

    /// Whether they have to be [restored](Self::restore).
    #[inline]
    #[must_use]
    pub fn are_own(&self) -> bool {
        self.own
    }

    /// Sets them again.
    #[inline]
    pub fn restore(&self) {
        if self.own {
            self.load();
        }
    }

    #[cold]
    fn load(&self) {
        // SAFETY: loads values that were in these registers before, or the ABI's defaults.
        unsafe {
            std::arch::asm!("ldmxcsr [{}]", "fldcw [{}]", in(reg) &raw const self.mxcsr,
                in(reg) &raw const self.x87, options(nostack, preserves_flags, readonly));
        }
    }
}
