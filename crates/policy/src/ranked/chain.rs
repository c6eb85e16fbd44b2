//! The order in which waiting jobs were queued, as a doubly linked list through an array: in at the
//! end, out anywhere, both in O(1). It is what a policy gives up its jobs by when it is replaced.

const NIL: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Link {
    before: u32,
    after: u32,
}

/// A list of jobs in the order in which they were queued.
pub(crate) struct Chain {
    links: Vec<Link>,
    head: u32,
    tail: u32,
}

impl Chain {
    pub(crate) fn new(nodes: usize) -> Self {
        Self { links: vec![Link { before: NIL, after: NIL }; nodes], head: NIL, tail: NIL }
    }

    pub(crate) fn head(&self) -> Option<u32> {
        (self.head != NIL).then_some(self.head)
    }

    /// The one after a node that is in the list.
    pub(crate) fn after(&self, node: u32) -> Option<u32> {
        let after = self.links[node as usize].after;
        (after != NIL).then_some(after)
    }

    /// Appends a node that is not in the list.
    pub(crate) fn push(&mut self, node: u32) {
        self.links[node as usize] = Link { before: self.tail, after: NIL };
        match self.tail {
            NIL => self.head = node,
            tail => self.links[tail as usize].after = node,
        }
        self.tail = node;
    }

    /// Takes out a node that is in the list.
    pub(crate) fn remove(&mut self, node: u32) {
        let Link { before, after } = self.links[node as usize];
        match before {
            NIL => self.head = after,
            before => self.links[before as usize].after = after,
        }
        match after {
            NIL => self.tail = before,
            after => self.links[after as usize].before = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_order_of_what_is_left() {
        let mut chain = Chain::new(6);
        (0..6).for_each(|node| chain.push(node));
        [0, 3, 5].into_iter().for_each(|node| chain.remove(node));
        chain.push(3);
        let mut order = Vec::new();
        while let Some(node) = chain.head() {
            chain.remove(node);
            order.push(node);
        }
        assert_eq!(order, [1, 2, 4, 3]);
        chain.push(0);
        assert_eq!(chain.head(), Some(0));
    }
}
