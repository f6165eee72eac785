//! What commands and an array's daemon do alike with a RAFS file system: make it, mount it, look at it.

mod found;
mod looking;
mod making;
mod mounting;

pub(crate) use self::{
    found::{check_not_foreign, find, find_damaged},
    looking::{checked, mended, report_of_unmounted, usage_status},
    making::{BLOCK_BYTES, RAFS_WITHOUT_FIRST, Random, describe, make_options, write},
    mounting::{mounted_status, serve_options},
};
