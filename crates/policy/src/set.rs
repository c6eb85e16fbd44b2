//! A set of class indexes, for the few classes that there are: one bit each.

/// Words for [`Spec::MAX_CLASSES`](crate::Spec::MAX_CLASSES) classes and the unknown one.
const WORDS: usize = crate::Spec::MAX_CLASSES / 64 + 1;

/// A set of class indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Set {
    words: [u64; WORDS],
    /// Which words are not zero: hardly ever more than the first.
    used: u32,
}

impl Set {
    pub(crate) const EMPTY: Self = Self { words: [0; WORDS], used: 0 };

    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }

    pub(crate) fn insert(&mut self, index: usize) {
        self.words[index / 64] |= 1 << (index % 64);
        self.used |= 1 << (index / 64);
    }

    pub(crate) fn remove(&mut self, index: usize) {
        let word = &mut self.words[index / 64];
        *word &= !(1 << (index % 64));
        if *word == 0 {
            self.used &= !(1 << (index / 64));
        }
    }

    /// In ascending order.
    pub(crate) fn iter(&self) -> Members<'_> {
        Members { words: &self.words, used: self.used, word: 0, at: 0 }
    }
}

/// The members of a [`Set`].
pub(crate) struct Members<'a> {
    words: &'a [u64; WORDS],
    used: u32,
    word: u64,
    at: usize,
}

impl Iterator for Members<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.word == 0 {
            if self.used == 0 {
                return None;
            }
            self.at = self.used.trailing_zeros() as usize;
            self.used &= self.used - 1;
            self.word = self.words[self.at];
        }
        let bit = self.word.trailing_zeros() as usize;
        self.word &= self.word - 1;
        Some(self.at * 64 + bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_was_put_into_it() {
        let mut set = Set::EMPTY;
        let members = [0, 1, 63, 64, 200, 256];
        members.iter().for_each(|&index| set.insert(index));
        assert_eq!(set.iter().collect::<Vec<_>>(), members);
        members.iter().step_by(2).for_each(|&index| set.remove(index));
        assert_eq!(set.iter().collect::<Vec<_>>(), [1, 64, 256]);
        [1, 64, 256].iter().for_each(|&index| set.remove(index));
        assert!(set.is_empty() && set.iter().next().is_none());
    }
}
