//! Single cases.

use super::*;

/// A second look at a file system without damage writes nothing.
#[test]
fn what_is_good_stays_as_it_is() {
    let image = Image::make(3);
    let volume = Arc::new(image.volume.copy());
    assert_eq!(problems(&volume), []);
    let before = volume.bytes_now();
    assert!(!mended(&volume).unwrap().is_changed);
    assert!(volume.bytes_now() == before);
}
