//! The word that tells a kthread whether it may run: also what it sleeps on.

/// What the daemon asks of a kthread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// It has no core: it sleeps.
    Park,
    /// It has a core, until it parks by itself.
    Run,
    /// It is to park at once and to wake its heir.
    Evict,
}

/// `generation << 2 | ask`: each new word has a new generation, so that no answer to an older one is
/// taken for an answer to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(pub u32);

impl Word {
    /// What every kthread's word is at first.
    pub const FIRST: Self = Self(0);

    /// Counts words; wraps at 2³⁰.
    #[must_use]
    pub const fn generation(self) -> u32 {
        self.0 >> 2
    }

    /// What it asks. A value that does not exist counts as [`Ask::Park`].
    #[must_use]
    pub const fn ask(self) -> Ask {
        match self.0 & 3 {
            1 => Ask::Run,
            2 => Ask::Evict,
            _ => Ask::Park,
        }
    }

    /// The word that follows this one.
    #[must_use]
    pub const fn next(self, ask: Ask) -> Self {
        let ask = match ask {
            Ask::Park => 0,
            Ask::Run => 1,
            Ask::Evict => 2,
        };
        Self((self.generation() + 1) << 2 | ask)
    }
}

#[cfg(test)]
mod tests {
    use super::{Ask, Word};

    #[test]
    fn words_follow_each_other_and_wrap() {
        let run = Word::FIRST.next(Ask::Run);
        assert_eq!((run.generation(), run.ask()), (1, Ask::Run));
        let evict = run.next(Ask::Evict);
        assert_eq!((evict.generation(), evict.ask()), (2, Ask::Evict));
        let last = Word(u32::MAX).next(Ask::Park);
        assert_eq!((last.generation(), last.ask()), (0, Ask::Park));
        assert_eq!(Word(3).ask(), Ask::Park);
    }
}
