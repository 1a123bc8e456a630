//! Tells what a request names once from what it names again. `[P]`

use std::collections::HashSet;
use std::hash::Hash;

/// Items in the order in which they were first named.
#[derive(Debug)]
pub struct Named<T> {
    first: Vec<T>,
    seen: HashSet<T>,
    repeated: HashSet<T>,
}

impl<T: Clone + Eq + Hash> Named<T> {
    /// Nothing yet.
    pub fn new() -> Self {
        Self { first: Vec::new(), seen: HashSet::new(), repeated: HashSet::new() }
    }

    /// One more.
    pub fn add(&mut self, item: T) {
        if self.seen.insert(item.clone()) {
            self.first.push(item);
        } else {
            self.repeated.insert(item);
        }
    }

    /// Named at all.
    pub fn has(&self, item: &T) -> bool {
        self.seen.contains(item)
    }

    /// Named more than once.
    pub fn is_repeated(&self, item: &T) -> bool {
        self.repeated.contains(item)
    }

    /// Those named exactly once.
    pub fn once(&self) -> impl Iterator<Item = &T> {
        self.first.iter().filter(|item| !self.is_repeated(item))
    }

    /// Those named more than once, each once.
    pub fn repeated(&self) -> impl Iterator<Item = &T> {
        self.first.iter().filter(|item| self.is_repeated(item))
    }

    /// All, each once.
    pub fn distinct(self) -> Vec<T> {
        self.first
    }
}

impl<T: Clone + Eq + Hash> FromIterator<T> for Named<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut named = Self::new();
        items.into_iter().for_each(|item| named.add(item));
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_that_of_the_first_time() {
        let named: Named<_> = ["b", "a", "c", "a", "b", "a"].into_iter().collect();
        assert_eq!(named.once().collect::<Vec<_>>(), [&"c"]);
        assert_eq!(named.repeated().collect::<Vec<_>>(), [&"b", &"a"]);
        assert!(named.has(&"c") && !named.is_repeated(&"c") && !named.has(&"d"));
        assert_eq!(named.distinct(), ["b", "a", "c"]);
    }
}
