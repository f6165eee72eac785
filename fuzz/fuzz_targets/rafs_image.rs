//! A whole RAFS image, changed at places that the input chooses, with CRCs that are made right: a repair, a look, a mount and a walk.

#![no_main]

#[path = "../../crates/rafs/tests/mutated/image.rs"]
mod image;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static IMAGE: LazyLock<image::Image> = LazyLock::new(image::Image::make);

fuzz_target!(|input: &[u8]| {
    let _ = IMAGE.try_input(input);
});
