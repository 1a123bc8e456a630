//! Answers to Metadata in their encoded form, for as long as the image that they were made from is the current one.
//!
//! Clients come back every few minutes, and all of them after a change, with few
//! different questions; a cluster with ten thousand partitions shall not be
//! described anew for each. An answer is a function of its [`Question`] and of the
//! image, so a new image is all that makes the old answers void.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::cluster::ClusterImage;
use crate::network::ListenerInfo;
use crate::protocol::messages::metadata_request::MetadataRequest;
use crate::protocol::{Message as _, Writer};

/// Answers that are kept at most.
const ANSWERS: usize = 32;

/// Bytes of all answers that are kept; what is larger by itself is made each time.
const BYTES: usize = 8 * 1024 * 1024;

/// A smaller answer is made as quickly as it is found.
const SMALLEST: usize = 1024;

/// Questions of more bytes than this are not kept.
const LONGEST: usize = 4096;

/// All that an answer depends on beside the image.
#[derive(Clone, Debug)]
pub struct Question {
    /// Encoded again: what was read holds on to the whole frame.
    request: Bytes,
    version: i16,
    listener: Arc<ListenerInfo>,
    controller: i32,
}

impl Question {
    /// What was asked in which version, through which listener, whose endpoints are
    /// told, and the broker that is told as the controller; `None` when that is too
    /// long to be kept.
    pub fn new(
        request: &MetadataRequest,
        version: i16,
        listener: &Arc<ListenerInfo>,
        controller: i32,
    ) -> Option<Self> {
        let mut writer = Writer::new();
        request.encode(&mut writer, version).ok()?;
        let request = Some(writer.into_bytes()).filter(|bytes| bytes.len() <= LONGEST)?;
        Some(Self { request, version, listener: Arc::clone(listener), controller })
    }

    fn is(&self, other: &Self) -> bool {
        self.version == other.version
            && self.controller == other.controller
            && self.listener.name == other.listener.name
            && self.request == other.request
    }
}

/// The answers that are kept.
#[derive(Debug, Default)]
pub struct MetadataAnswers {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    image: Weak<ClusterImage>,
    answers: VecDeque<(Question, Bytes)>,
    bytes: usize,
}

impl MetadataAnswers {
    /// The encoded body that answers the question by this image.
    pub fn get(&self, image: &Arc<ClusterImage>, question: &Question) -> Option<Bytes> {
        let kept = self.kept.lock();
        if !kept.is_from(image) {
            return None;
        }
        let (_, body) = kept.answers.iter().find(|(asked, _)| asked.is(question))?;
        Some(body.clone())
    }

    /// Keeps an answer, in place of the oldest ones if need be.
    pub fn keep(&self, image: &Arc<ClusterImage>, question: Question, body: &Bytes) {
        if !(SMALLEST..=BYTES).contains(&body.len()) {
            return;
        }
        let mut kept = self.kept.lock();
        if !kept.is_from(image) {
            *kept = Kept { image: Arc::downgrade(image), ..Kept::default() };
        }
        while kept.answers.len() >= ANSWERS || kept.bytes + body.len() > BYTES {
            let Some((_, oldest)) = kept.answers.pop_front() else { break };
            kept.bytes -= oldest.len();
        }
        kept.bytes += body.len();
        kept.answers.push_back((question, body.clone()));
    }
}

impl Kept {
    /// The weak reference keeps the image's address from being given to another.
    fn is_from(&self, image: &Arc<ClusterImage>) -> bool {
        std::ptr::eq(self.image.as_ptr(), Arc::as_ptr(image))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::RawTaggedField;
    use crate::protocol::apis::ListenerKind;
    use crate::protocol::messages::metadata_request::MetadataRequestTopic;

    fn request(topics: usize) -> MetadataRequest {
        let topic = |number: usize| MetadataRequestTopic {
            name: Some(number.to_string().into()),
            ..Default::default()
        };
        MetadataRequest { topics: Some((0..topics).map(topic).collect()), ..Default::default() }
    }

    fn listener(name: &str) -> Arc<ListenerInfo> {
        Arc::new(ListenerInfo { name: name.into(), kind: ListenerKind::Broker })
    }

    fn question(version: i16, topics: usize) -> Question {
        Question::new(&request(topics), version, &listener("PLAINTEXT"), 1).unwrap()
    }

    fn body(len: usize) -> Bytes {
        vec![7; len].into()
    }

    #[test]
    fn an_answer_is_for_its_question_and_its_image() {
        let (answers, image) = (MetadataAnswers::default(), Arc::new(ClusterImage::empty("c")));
        answers.keep(&image, question(13, 1), &body(2000));
        assert_eq!(answers.get(&image, &question(13, 1)), Some(body(2000)));
        assert_eq!(answers.get(&image, &question(12, 1)), None);
        assert_eq!(answers.get(&image, &question(13, 2)), None);
        let elsewhere = Question { listener: listener("OTHER"), ..question(13, 1) };
        assert_eq!(answers.get(&image, &elsewhere), None);
        let another = Question { controller: 2, ..question(13, 1) };
        assert_eq!(answers.get(&image, &another), None);
        let next = Arc::new(ClusterImage::empty("c"));
        assert_eq!(answers.get(&next, &question(13, 1)), None);
        answers.keep(&next, question(13, 2), &body(3000));
        assert_eq!(answers.get(&image, &question(13, 1)), None, "the old ones are gone");
    }

    #[test]
    fn what_is_kept_has_limits() {
        let (answers, image) = (MetadataAnswers::default(), Arc::new(ClusterImage::empty("c")));
        for topics in 0..100 {
            answers.keep(&image, question(9, topics), &body(BYTES / 10));
        }
        let kept = answers.kept.lock();
        assert!(kept.bytes <= BYTES && kept.answers.len() == 10);
        assert_eq!(kept.bytes, kept.answers.iter().map(|(_, body)| body.len()).sum::<usize>());
        drop(kept);
        for topics in 0..100 {
            answers.keep(&image, question(10, topics), &body(SMALLEST));
        }
        assert_eq!(answers.kept.lock().answers.len(), ANSWERS);
        answers.keep(&image, question(11, 1), &body(BYTES + 1));
        answers.keep(&image, question(11, 2), &body(SMALLEST - 1));
        assert!((1..3).all(|topics| answers.get(&image, &question(11, topics)).is_none()));
        assert!(answers.get(&image, &question(10, 99)).is_some());
    }

    /// What a client sends beside its question is part of it, and of its length.
    #[test]
    fn a_long_question_is_not_kept() {
        let tag = RawTaggedField { tag: 77, data: vec![7; 1 << 20].into() };
        let long = MetadataRequest { unknown_tagged_fields: vec![tag], ..request(1) };
        assert!(Question::new(&long, 12, &listener("PLAINTEXT"), 1).is_none());
        assert!(Question::new(&request(LONGEST), 12, &listener("PLAINTEXT"), 1).is_none());
    }
}
