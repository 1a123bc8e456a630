//! Whether a look at all logs of a directory could find anything new.
//!
//! Work in the background looks at every log for the few that want something, and
//! with very many logs that is what a broker at rest spends its time on. So the
//! marks of each log say when one of their numbers changes, and a look that has
//! seen everything since the last change is not taken.

use std::sync::atomic::{AtomicU8, Ordering, fence};

/// Who looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Is a sync due?
    Flush = 1,
    /// Are files to be removed?
    Removals = 2,
    /// Did recovery points move?
    RecoveryPoints = 4,
    /// Did log starts move?
    LogStarts = 8,
    /// Did high watermarks move?
    HighWatermarks = 16,
}

const ALL: u8 = 31;

/// Who has not looked since something changed.
#[derive(Debug)]
pub struct News(AtomicU8);

impl Default for News {
    fn default() -> Self {
        Self(AtomicU8::new(ALL))
    }
}

impl News {
    /// Something has changed. Called with every append: costs a write to shared
    /// memory only when somebody has looked since the last time.
    pub fn came(&self) {
        // The change is seen by whoever takes what is read here as set.
        fence(Ordering::SeqCst);
        if self.0.load(Ordering::Relaxed) != ALL {
            self.0.fetch_or(ALL, Ordering::SeqCst);
        }
    }

    /// True when something may have changed since the last call; to be called before
    /// looking.
    pub fn taken(&self, look: Look) -> bool {
        let news = self.0.fetch_and(!(look as u8), Ordering::SeqCst) & look as u8 != 0;
        fence(Ordering::SeqCst);
        news
    }

    /// Asks for another look, whatever changes.
    pub fn again(&self, look: Look) {
        self.0.fetch_or(look as u8, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_looks_once_until_something_changes() {
        let news = News::default();
        let both = |news: &News| (news.taken(Look::Flush), news.taken(Look::HighWatermarks));
        assert_eq!((both(&news), both(&news)), ((true, true), (false, false)));
        news.came();
        assert!(news.taken(Look::Flush));
        news.came();
        assert_eq!((both(&news), both(&news)), ((true, true), (false, false)));
        news.again(Look::Flush);
        assert_eq!((both(&news), both(&news)), ((true, false), (false, false)));
    }
}
