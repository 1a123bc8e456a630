//! Every message in every version, by itself: what is written can be read, and
//! whatever is read is read without harm.

use bytes::Bytes;
use ottla_protocol::EncodeError;
use ottla_protocol::messages::CATALOGUE;
use proptest::prelude::*;

#[test]
fn defaults_survive_the_way_out_and_in() {
    for entry in CATALOGUE {
        for version in entry.versions.0..=entry.versions.1 {
            let bytes = match (entry.encode_default)(version) {
                Ok(bytes) => bytes,
                Err(EncodeError::Null { .. }) => continue,
                Err(other) => panic!("{} {version}: {other}", entry.name),
            };
            let again = (entry.reencode)(bytes.clone(), version);
            assert_eq!(again, Ok((bytes, 0)), "{} {version}", entry.name);
        }
    }
}

#[test]
fn a_huge_count_is_refused_at_once() {
    for entry in CATALOGUE {
        for version in entry.versions.0..=entry.versions.1 {
            for claim in
                [&[0x7f, 0xff, 0xff, 0xff][..], &[0xff, 0xff, 0xff, 0xff, 0x0f], &[0x7f, 0xff]]
            {
                for zeros in 0..24 {
                    let mut bytes = vec![0; zeros];
                    bytes.extend_from_slice(claim);
                    bytes.extend_from_slice(&[0; 8]);
                    let _ = (entry.reencode)(Bytes::from(bytes), version);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// What can be read is written again so that it reads the same.
    #[test]
    fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let bytes = Bytes::from(bytes);
        for entry in CATALOGUE {
            for version in entry.versions.0..=entry.versions.1 {
                if let Ok((again, _)) = (entry.reencode)(bytes.clone(), version) {
                    let (twice, left) = (entry.reencode)(again.clone(), version).unwrap();
                    prop_assert_eq!(twice, again, "{} {}", entry.name, version);
                    prop_assert_eq!(left, 0);
                }
            }
        }
    }
}
