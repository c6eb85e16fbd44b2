//! A set of class indexes, for the few classes that there are: one bit each.

/// Words for [`Spec::MAX_CLASSES`](crate::Spec::MAX_CLASSES) classes and the unknown one.
const WORDS: usize = crate::Spec::MAX_CLASSES / 64 + 1;

/// See the module's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Set {
    words: [u64; WORDS],
}

impl Set {
    pub(crate) const EMPTY: Self = Self { words: [0; WORDS] };

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::EMPTY
    }

    pub(crate) fn insert(&mut self, index: usize) {
        self.words[index / 64] |= 1 << (index % 64);
    }

    pub(crate) fn remove(&mut self, index: usize) {
        self.words[index / 64] &= !(1 << (index % 64));
    }

    /// In ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + use<> {
        let mut words = self.words;
        let mut at = 0;
        std::iter::from_fn(move || {
            while words[at] == 0 {
                at += 1;
                if at == WORDS {
                    at = WORDS - 1;
                    return None;
                }
            }
            let bit = words[at].trailing_zeros() as usize;
            words[at] &= words[at] - 1;
            Some(at * 64 + bit)
        })
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
