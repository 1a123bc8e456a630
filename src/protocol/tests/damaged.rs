//! Damaged messages of every kind and version: they are read or refused without
//! a panic, and without more memory than their size justifies.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use bytes::Bytes;
use ottla_protocol::messages::CATALOGUE;
use ottla_protocol::messages::metadata_request::MetadataRequest;
use ottla_protocol::request::{RequestError, RequestHeader};
use ottla_protocol::{DecodeError, Message as _, Reader};

mod wire;

use wire::{Choices, damage, random};

/// The system's allocator, which notes the largest piece that was asked for.
struct Noting;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

#[expect(unsafe_code, reason = "to see what is asked for, one must stand in between")]
// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Noting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(layout.size())));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(size)));
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Noting = Noting;

/// The largest piece of memory that `work` asks for, and what it returns.
fn largest_piece<T>(work: impl FnOnce() -> T) -> (usize, T) {
    LARGEST.set(0);
    let result = work();
    (LARGEST.get(), result)
}

/// An element takes less than this, and a thousand of them may be reserved.
const MOST_FOR_SMALL: usize = 1 << 20;

#[test]
fn damaged_messages_are_read_or_refused() {
    for schema in wire::schemas() {
        let ours = CATALOGUE.iter().find(|ours| ours.name == schema.name).unwrap();
        for version in ours.versions.0..=ours.versions.1 {
            for case in 0..40 {
                let choices = random(case, case as usize * 8);
                let mut bytes = wire::generate(&schema, version, &mut Choices::new(&choices));
                for hit in 0..=case % 3 {
                    damage(case * 7 + hit, &mut bytes);
                }
                let bytes = Bytes::from(bytes);
                let (largest, found) = largest_piece(|| (ours.reencode)(bytes.clone(), version));
                assert!(largest < MOST_FOR_SMALL, "{} {version} {bytes:x}: {largest}", ours.name);
                if let Ok((again, _)) = found {
                    let twice = (ours.reencode)(again.clone(), version);
                    assert_eq!(twice, Ok((again, 0)), "{} {version} {bytes:x}", ours.name);
                }
            }
        }
    }
}

/// Wherever an array may stand, it claims all that a count can say.
#[test]
fn claims_of_two_thousand_million_elements_are_refused() {
    for schema in wire::schemas() {
        let ours = CATALOGUE.iter().find(|ours| ours.name == schema.name).unwrap();
        for version in ours.versions.0..=ours.versions.1 {
            let compact = (ours.is_flexible)(version);
            for mut bytes in wire::up_to_each_count(&schema, version) {
                let claim: &[u8] =
                    if compact { b"\xff\xff\xff\xff\x07" } else { b"\x7f\xff\xff\xff" };
                bytes.extend_from_slice(claim);
                bytes.extend_from_slice(&[1; 1000]);
                let (largest, found) =
                    largest_piece(|| (ours.reencode)(Bytes::from(bytes), version));
                assert!(found.is_err(), "{} {version}", ours.name);
                assert!(largest < MOST_FOR_SMALL, "{} {version}: {largest}", ours.name);
            }
        }
    }
}

/// Two bytes on the wire, seventy in memory: a hundred megabytes of those would
/// take more than three gigabytes.
#[test]
fn many_small_elements_are_refused_before_they_fill_the_memory() {
    let elements: u32 = 10 << 20;
    let mut frame = Vec::new();
    for shift in [0, 7, 14, 21] {
        frame.push(((elements + 1) >> shift) as u8 | 0x80);
    }
    frame.push(0);
    frame.resize(5 + 2 * elements as usize, 1);
    let (largest, found) =
        largest_piece(|| MetadataRequest::decode(&mut Reader::new(Bytes::from(frame)), 9));
    assert!(matches!(found, Err(DecodeError::TooMuchMemory { .. })), "{found:?}");
    assert!(largest < MOST_FOR_SMALL);
}

#[test]
fn damaged_headers_are_read_or_refused() {
    for case in 0..20_000 {
        let mut bytes = random(case, 40);
        // Mostly an API and version that exist.
        if case % 8 != 0 {
            (bytes[0], bytes[1], bytes[2], bytes[3]) = (0, bytes[1] % 96, 0, bytes[3] % 14);
        }
        if case % 3 != 0 {
            (bytes[8], bytes[9]) = (0, bytes[9] % 32);
        }
        bytes.truncate(usize::from(bytes[39]) % 48);
        let (largest, found) =
            largest_piece(|| RequestHeader::decode(&mut Reader::new(Bytes::from(bytes))));
        assert!(largest < 4096);
        assert!(!matches!(found, Err(RequestError::UnsupportedVersion { .. })));
    }
}
