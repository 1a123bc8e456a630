//! An ordered map whose copies share what they have in common. `[P]`
//!
//! A B+ tree behind `Arc`s. Cloning costs one reference count; changing a clone
//! copies only the nodes between the root and the entry, and two maps that come
//! from one another are compared in the time of their difference, because nodes
//! that both hold are skipped unseen. The cluster's image is made of these, so
//! that a new image for each committed batch costs what the batch changed.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// Entries of a leaf and children of a branch, at most.
const WIDTH: usize = 32;

/// An ordered map with cheap clones.
#[derive(Clone)]
pub struct SharedMap<K, V> {
    root: Arc<Node<K, V>>,
    len: usize,
}

/// All leaves lie at the same depth. A branch's key is a lower bound of the
/// keys below it and an upper bound (exclusive) of those of the child before.
#[derive(Clone)]
enum Node<K, V> {
    Leaf(Vec<(K, V)>),
    Branch(Vec<(K, Arc<Self>)>),
}

/// One difference between two maps.
#[derive(Debug, PartialEq, Eq)]
pub enum Change<'a, K, V> {
    /// Only the new map has the key.
    Added(&'a K, &'a V),
    /// Both have the key: the old value, the new value.
    Changed(&'a K, &'a V, &'a V),
    /// Only the old map has the key.
    Removed(&'a K, &'a V),
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        Self { root: Arc::new(Node::Leaf(Vec::new())), len: 0 }
    }
}

impl<K, V> SharedMap<K, V> {
    /// Entries in the map.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True without entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All entries, in the order of their keys.
    pub fn iter(&self) -> Iter<'_, K, V> {
        Iter { path: vec![(&*self.root, 0)] }
    }

    /// All values, in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// All keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }
}

impl<K: Ord, V> SharedMap<K, V> {
    /// The value of `key`.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let mut node = &*self.root;
        loop {
            match node {
                Node::Leaf(entries) => {
                    let at = entries.binary_search_by(|(k, _)| k.borrow().cmp(key)).ok()?;
                    return entries.get(at).map(|(_, value)| value);
                }
                Node::Branch(children) => node = &children.get(child_of(children, key))?.1,
            }
        }
    }

    /// True when the map has the key.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// The entries whose keys are `least` or greater, in order.
    pub fn range_from<Q: Ord + ?Sized>(&self, least: &Q) -> Iter<'_, K, V>
    where
        K: Borrow<Q>,
    {
        let mut path = Vec::new();
        let mut node = &*self.root;
        loop {
            match node {
                Node::Leaf(entries) => {
                    let at = entries.partition_point(|(key, _)| key.borrow() < least);
                    path.push((node, at));
                    return Iter { path };
                }
                Node::Branch(children) => {
                    let at = child_of(children, least);
                    path.push((node, at + 1));
                    let Some((_, child)) = children.get(at) else { return Iter { path } };
                    node = child;
                }
            }
        }
    }
}

impl<K: Ord + Clone, V: Clone> SharedMap<K, V> {
    /// Sets the value of `key`; the value that it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let (before, split) = insert_into(&mut self.root, key, value);
        if let Some((least, right)) = split {
            let left = Arc::clone(&self.root);
            // The first key of the leftmost child is never looked at.
            self.root = Arc::new(Node::Branch(vec![(least.clone(), left), (least, right)]));
            lower_first_key(&mut self.root);
        }
        if before.is_none() {
            self.len += 1;
        }
        before
    }

    /// Takes `key` out; the value that it had.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        if !self.contains_key(key) {
            return None;
        }
        let before = remove_from(&mut self.root, key);
        self.len -= 1;
        while let Node::Branch(children) = &*self.root {
            let only = match children.as_slice() {
                [] => Arc::new(Node::Leaf(Vec::new())),
                [(_, only)] => Arc::clone(only),
                _ => break,
            };
            self.root = only;
        }
        before
    }

    /// The value of `key`, to be changed in this copy alone.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        if !self.contains_key(key) {
            return None;
        }
        let mut node = &mut self.root;
        loop {
            match Arc::make_mut(node) {
                Node::Leaf(entries) => {
                    let at = entries.binary_search_by(|(k, _)| k.borrow().cmp(key)).ok()?;
                    return entries.get_mut(at).map(|(_, value)| value);
                }
                Node::Branch(children) => {
                    let at = child_of(children, key);
                    node = &mut children.get_mut(at)?.1;
                }
            }
        }
    }
}

impl<K: Ord, V: PartialEq> SharedMap<K, V> {
    /// What must happen to `old` so that it becomes `self`, in the order of keys.
    pub fn changes_since<'a>(&'a self, old: &'a Self) -> Vec<Change<'a, K, V>> {
        let (mut before, mut after) = (vec![&old.root], vec![&self.root]);
        let (old_height, new_height) = (height(&old.root), height(&self.root));
        for _ in new_height..old_height {
            before = expand(&before);
        }
        for _ in old_height..new_height {
            after = expand(&after);
        }
        loop {
            drop_shared(&mut before, &mut after);
            let leaves = |nodes: &[&Arc<Node<K, V>>]| {
                nodes.first().is_none_or(|node| matches!(&***node, Node::Leaf(_)))
            };
            if leaves(&before) && leaves(&after) {
                return merge(entries(&before), entries(&after));
            }
            before = expand(&before);
            after = expand(&after);
        }
    }
}

impl<K: PartialEq, V: PartialEq> PartialEq for SharedMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.root, &other.root)
            || (self.len == other.len && self.iter().eq(other.iter()))
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for SharedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Ord + Clone, V: Clone> FromIterator<(K, V)> for SharedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

impl<'a, K, V> IntoIterator for &'a SharedMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Entries in the order of keys.
pub struct Iter<'a, K, V> {
    /// From the root down: a node, and which of its children or entries is next.
    path: Vec<(&'a Node<K, V>, usize)>,
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (node, next) = self.path.last_mut()?;
            let at = *next;
            *next += 1;
            match node {
                Node::Leaf(entries) => match entries.get(at) {
                    Some((key, value)) => return Some((key, value)),
                    None => self.path.pop(),
                },
                Node::Branch(children) => match children.get(at) {
                    Some((_, child)) => {
                        self.path.push((child, 0));
                        continue;
                    }
                    None => self.path.pop(),
                },
            };
        }
    }
}

/// Which child may hold `key`.
fn child_of<K: Borrow<Q>, C, Q: Ord + ?Sized>(children: &[(K, C)], key: &Q) -> usize {
    children.partition_point(|(least, _)| least.borrow() <= key).saturating_sub(1)
}

/// The node that splits off when `node` grows too wide, with its least key.
type Split<K, V> = Option<(K, Arc<Node<K, V>>)>;

fn insert_into<K: Ord + Clone, V: Clone>(
    node: &mut Arc<Node<K, V>>,
    key: K,
    value: V,
) -> (Option<V>, Split<K, V>) {
    match Arc::make_mut(node) {
        Node::Leaf(entries) => {
            let before = match entries.binary_search_by(|(k, _)| k.cmp(&key)) {
                Ok(at) => entries.get_mut(at).map(|entry| std::mem::replace(&mut entry.1, value)),
                Err(at) => {
                    entries.insert(at, (key, value));
                    None
                }
            };
            (before, split_off(entries).map(|(least, half)| (least, Arc::new(Node::Leaf(half)))))
        }
        Node::Branch(children) => {
            let at = child_of(children, &key);
            let Some(child) = children.get_mut(at) else { return (None, None) };
            if key < child.0 {
                child.0 = key.clone();
            }
            let (before, split) = insert_into(&mut child.1, key, value);
            if let Some(right) = split {
                children.insert(at + 1, right);
            }
            (before, split_off(children).map(|(least, half)| (least, Arc::new(Node::Branch(half)))))
        }
    }
}

/// The upper half of a node that has become too wide.
fn split_off<K: Clone, T>(items: &mut Vec<(K, T)>) -> Option<(K, Vec<(K, T)>)> {
    if items.len() <= WIDTH {
        return None;
    }
    let half = items.split_off(items.len() / 2);
    let least = half.first()?.0.clone();
    Some((least, half))
}

/// Gives a new root's first child its true lower bound.
fn lower_first_key<K: Clone, V: Clone>(root: &mut Arc<Node<K, V>>) {
    let Node::Branch(children) = Arc::make_mut(root) else { return };
    let Some((first, child)) = children.first_mut() else { return };
    let least = match &**child {
        Node::Leaf(entries) => entries.first().map(|(key, _)| key),
        Node::Branch(children) => children.first().map(|(key, _)| key),
    };
    if let Some(least) = least {
        *first = least.clone();
    }
}

/// Takes a key out that is there. Nodes that empty go; others are not merged,
/// which costs a little space and keeps removal simple.
fn remove_from<K: Ord + Clone + Borrow<Q>, V: Clone, Q: Ord + ?Sized>(
    node: &mut Arc<Node<K, V>>,
    key: &Q,
) -> Option<V> {
    match Arc::make_mut(node) {
        Node::Leaf(entries) => {
            let at = entries.binary_search_by(|(k, _)| k.borrow().cmp(key)).ok()?;
            Some(entries.remove(at).1)
        }
        Node::Branch(children) => {
            let at = child_of(children, key);
            let child = &mut children.get_mut(at)?.1;
            let before = remove_from(child, key);
            let empty = match &**child {
                Node::Leaf(entries) => entries.is_empty(),
                Node::Branch(below) => below.is_empty(),
            };
            if empty {
                children.remove(at);
            }
            before
        }
    }
}

fn height<K, V>(node: &Arc<Node<K, V>>) -> usize {
    match &**node {
        Node::Leaf(_) => 0,
        Node::Branch(children) => 1 + children.first().map_or(0, |(_, child)| height(child)),
    }
}

/// The nodes one level below.
fn expand<'a, K, V>(nodes: &[&'a Arc<Node<K, V>>]) -> Vec<&'a Arc<Node<K, V>>> {
    let mut below = Vec::new();
    for node in nodes {
        if let Node::Branch(children) = &***node {
            below.extend(children.iter().map(|(_, child)| child));
        }
    }
    below
}

/// Drops nodes that stand in both lists.
fn drop_shared<K, V>(before: &mut Vec<&Arc<Node<K, V>>>, after: &mut Vec<&Arc<Node<K, V>>>) {
    let old: HashSet<_> = before.iter().map(|node| Arc::as_ptr(node)).collect();
    let shared: HashSet<_> =
        after.iter().map(|node| Arc::as_ptr(node)).filter(|node| old.contains(node)).collect();
    before.retain(|node| !shared.contains(&Arc::as_ptr(node)));
    after.retain(|node| !shared.contains(&Arc::as_ptr(node)));
}

fn entries<'a, K, V>(leaves: &[&'a Arc<Node<K, V>>]) -> Vec<(&'a K, &'a V)> {
    let mut all = Vec::new();
    for leaf in leaves {
        if let Node::Leaf(entries) = &***leaf {
            all.extend(entries.iter().map(|(key, value)| (key, value)));
        }
    }
    all
}

fn merge<'a, K: Ord, V: PartialEq>(
    before: Vec<(&'a K, &'a V)>,
    after: Vec<(&'a K, &'a V)>,
) -> Vec<Change<'a, K, V>> {
    let mut changes = Vec::new();
    let (mut before, mut after) = (before.into_iter().peekable(), after.into_iter().peekable());
    loop {
        let order = match (before.peek(), after.peek()) {
            (None, None) => return changes,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((old, _)), Some((new, _))) => old.cmp(new),
        };
        let old = before.next_if(|_| order != Ordering::Greater);
        let new = after.next_if(|_| order != Ordering::Less);
        match (old, new) {
            (Some((key, old)), Some((_, new))) if old != new => {
                changes.push(Change::Changed(key, old, new));
            }
            (Some((key, old)), None) => changes.push(Change::Removed(key, old)),
            (None, Some((key, new))) => changes.push(Change::Added(key, new)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u16, u8),
        Remove(u16),
        Remember,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0..600u16, any::<u8>()).prop_map(|(key, value)| Step::Insert(key, value)),
            4 => (0..600u16).prop_map(Step::Remove),
            1 => Just(Step::Remember),
        ]
    }

    fn expected_changes(old: &BTreeMap<u16, u8>, new: &BTreeMap<u16, u8>) -> Vec<String> {
        let keys: std::collections::BTreeSet<_> = old.keys().chain(new.keys()).collect();
        let change = |key: &u16| match (old.get(key), new.get(key)) {
            (None, Some(new)) => Some(format!("{:?}", Change::Added(key, new))),
            (Some(old), None) => Some(format!("{:?}", Change::Removed(key, old))),
            (Some(old), Some(new)) if old != new => {
                Some(format!("{:?}", Change::Changed(key, old, new)))
            }
            _ => None,
        };
        keys.into_iter().filter_map(change).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn behaves_as_a_plain_map_and_old_copies_stay(
            steps in prop::collection::vec(step(), 0..1500),
        ) {
            let mut plain = BTreeMap::new();
            let mut shared = SharedMap::default();
            let mut remembered = vec![(plain.clone(), shared.clone())];
            for step in steps {
                match step {
                    Step::Insert(key, value) => {
                        prop_assert_eq!(shared.insert(key, value), plain.insert(key, value));
                    }
                    Step::Remove(key) => prop_assert_eq!(shared.remove(&key), plain.remove(&key)),
                    Step::Remember => remembered.push((plain.clone(), shared.clone())),
                }
            }
            prop_assert_eq!(shared.len(), plain.len());
            for key in 0..600 {
                prop_assert_eq!(shared.get(&key), plain.get(&key));
            }
            let from: Vec<_> = shared.range_from(&300).collect();
            prop_assert_eq!(from, plain.range(300..).collect::<Vec<_>>());
            for (old_plain, old_shared) in &remembered {
                prop_assert!(old_shared.iter().eq(old_plain.iter()));
                let changes: Vec<_> = shared
                    .changes_since(old_shared)
                    .into_iter()
                    .map(|change| format!("{change:?}"))
                    .collect();
                prop_assert_eq!(changes, expected_changes(old_plain, &plain));
            }
        }
    }

    #[test]
    fn a_change_copies_only_its_path() {
        let old: SharedMap<u32, u32> = (0..100_000).map(|key| (key, key)).collect();
        let mut new = old.clone();
        new.insert(50_000, 1);
        let (mut before, mut after) = (vec![&old.root], vec![&new.root]);
        for _ in 0..height(&old.root) {
            drop_shared(&mut before, &mut after);
            assert_eq!((before.len(), after.len()), (1, 1));
            before = expand(&before);
            after = expand(&after);
        }
        assert_eq!(new.changes_since(&old), vec![Change::Changed(&50_000, &50_000, &1)]);
        assert_eq!(old.get(&50_000), Some(&50_000));
    }

    #[test]
    fn get_mut_changes_one_copy() {
        let old: SharedMap<u32, u32> = (0..100).map(|key| (key, key)).collect();
        let mut new = old.clone();
        *new.get_mut(&7).unwrap() = 70;
        assert_eq!((old.get(&7), new.get(&7)), (Some(&7), Some(&70)));
        assert_eq!(new.get_mut(&100), None);
    }
}
