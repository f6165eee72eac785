//! Links ISA-L.

fn main() {
    println!("cargo:rustc-link-lib=isal");
}
