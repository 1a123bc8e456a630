//! Looks at the records of a compressed batch while they unfold, in constant
//! memory: sizes, offsets and timestamps; keys, values and headers are stepped
//! over. `[P]`
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use std::io::{self, Read};

use crate::types::Timestamp;

use super::batch::{BatchHeader, TimestampType};
use super::record::{RecordError, RecordOutline, unzigzag_32, unzigzag_64};

const PIECE_LEN: usize = 16 * 1024;

/// Why the stream of records ends early.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The source failed: broken compression, or more than it may unfold to.
    #[error(transparent)]
    Source(#[from] io::Error),
    /// The source is sound but no stream of records.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// The records of one batch, read from `R`.
pub struct RecordStream<R> {
    source: R,
    piece: Box<[u8]>,
    start: usize,
    end: usize,
    /// Bytes that the current record still has.
    left: usize,
    declared: i32,
    seen: i32,
    base_timestamp: Timestamp,
    append_time: Option<Timestamp>,
}

impl<R: Read> RecordStream<R> {
    /// Over `source`, which yields the plain records of the batch with this
    /// header.
    pub fn new(header: &BatchHeader, source: R) -> Self {
        let append_time = header.attributes.timestamp_type() == TimestampType::LogAppendTime;
        Self {
            source,
            piece: vec![0; PIECE_LEN].into_boxed_slice(),
            start: 0,
            end: 0,
            left: 0,
            declared: header.record_count,
            seen: 0,
            base_timestamp: header.base_timestamp,
            append_time: append_time.then_some(header.max_timestamp),
        }
    }

    /// What the records come from.
    pub fn source(&self) -> &R {
        &self.source
    }

    /// The next record; `None` after the last, when nothing follows it.
    pub fn next_record(&mut self) -> Result<Option<RecordOutline>, StreamError> {
        let at_end = self.start == self.end && !self.fill()?;
        if at_end != (self.seen >= self.declared) || self.declared < 0 {
            return Err(RecordError::WrongCount { declared: self.declared }.into());
        }
        if at_end {
            return Ok(None);
        }
        self.seen += 1;
        self.left = usize::MAX;
        let length = self.varint()?;
        let length = usize::try_from(length).map_err(|_| RecordError::NegativeLength(length))?;
        self.left = length;
        self.skip(1)?;
        let delta = unzigzag_64(|| self.byte())?;
        let offset_delta = self.varint()?;
        let has_key = self.skip_nullable()?;
        self.skip_nullable()?;
        self.skip_headers()?;
        if self.left > 0 {
            let actual = length - self.left;
            return Err(RecordError::BadLength { declared: length, actual }.into());
        }
        let created = Timestamp(self.base_timestamp.0.wrapping_add(delta));
        let timestamp = self.append_time.unwrap_or(created);
        Ok(Some(RecordOutline { offset_delta, timestamp, has_key }))
    }

    fn skip_headers(&mut self) -> Result<(), StreamError> {
        let count = self.varint()?;
        let count = usize::try_from(count).map_err(|_| RecordError::NegativeLength(count))?;
        for _ in 0..count {
            let length = self.varint()?;
            let length =
                usize::try_from(length).map_err(|_| RecordError::NegativeLength(length))?;
            self.skip(length)?;
            self.skip_nullable()?;
        }
        Ok(())
    }

    fn skip_nullable(&mut self) -> Result<bool, StreamError> {
        match usize::try_from(self.varint()?) {
            Ok(length) => self.skip(length).map(|()| true),
            Err(_) => Ok(false),
        }
    }

    fn skip(&mut self, length: usize) -> Result<(), StreamError> {
        self.left = self.left.checked_sub(length).ok_or(RecordError::Truncated)?;
        let mut wanted = length;
        while wanted > 0 {
            if self.start == self.end && !self.fill()? {
                return Err(RecordError::Truncated.into());
            }
            let step = wanted.min(self.end - self.start);
            self.start += step;
            wanted -= step;
        }
        Ok(())
    }

    fn varint(&mut self) -> Result<i32, StreamError> {
        unzigzag_32(|| self.byte())
    }

    fn byte(&mut self) -> Result<u8, StreamError> {
        self.left = self.left.checked_sub(1).ok_or(RecordError::Truncated)?;
        if self.start == self.end && !self.fill()? {
            return Err(RecordError::Truncated.into());
        }
        let byte = self.piece.get(self.start).copied().ok_or(RecordError::Truncated)?;
        self.start += 1;
        Ok(byte)
    }

    /// Reads more when all is used; false at the end of the source.
    fn fill(&mut self) -> io::Result<bool> {
        self.start = 0;
        self.end = loop {
            match self.source.read(&mut self.piece) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        Ok(self.end > 0)
    }
}
