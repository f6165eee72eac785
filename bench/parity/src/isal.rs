//! The few functions of ISA-L that compute what we compute.

use crate::row::Row;
use std::ffi::{c_int, c_uchar, c_void};

unsafe extern "C" {
    fn xor_gen(vects: c_int, len: c_int, array: *mut *mut c_void) -> c_int;
    fn pq_gen(vects: c_int, len: c_int, array: *mut *mut c_void) -> c_int;
    fn gf_gen_rs_matrix(a: *mut c_uchar, m: c_int, k: c_int);
    fn ec_init_tables(k: c_int, rows: c_int, a: *mut c_uchar, tables: *mut c_uchar);
    fn ec_encode_data(
        len: c_int,
        k: c_int,
        rows: c_int,
        tables: *mut c_uchar,
        data: *mut *mut c_uchar,
        coding: *mut *mut c_uchar,
    );
}

/// Without an allocation, which would show at 4 KiB.
fn pointers(row: &mut Row) -> [*mut c_uchar; 16] {
    let mut pointers = [std::ptr::null_mut(); 16];
    pointers.iter_mut().zip(&mut row.columns).for_each(|(to, column)| *to = column.as_mut_ptr());
    pointers
}

pub fn xor(row: &mut Row) {
    let (vects, length, mut array) = (row.data + 1, row.length, pointers(row));
    // SAFETY: `vects` columns of `length` bytes, 64-byte aligned as ISA-L asks.
    assert_eq!(0, unsafe { xor_gen(vects as c_int, length as c_int, array.as_mut_ptr().cast()) });
}

pub fn pq(row: &mut Row) {
    let (vects, length, mut array) = (row.data + 2, row.length, pointers(row));
    // SAFETY: as above.
    assert_eq!(0, unsafe { pq_gen(vects as c_int, length as c_int, array.as_mut_ptr().cast()) });
}

/// The general Reed-Solomon encoder: ISA-L's own choice for wide vectors, with tables prepared once.
pub struct Encoder {
    tables: Vec<u8>,
    parities: usize,
}

impl Encoder {
    pub fn new(data: usize, parities: usize) -> Encoder {
        let mut matrix = vec![0; (data + parities) * data];
        let mut tables = vec![0; 32 * data * parities];
        let (k, m) = (data as c_int, (data + parities) as c_int);
        // SAFETY: both buffers have the sizes that ISA-L documents.
        unsafe {
            gf_gen_rs_matrix(matrix.as_mut_ptr(), m, k);
            ec_init_tables(k, parities as c_int, matrix[data * data..].as_mut_ptr(), tables.as_mut_ptr());
        }
        Encoder { tables, parities }
    }

    pub fn run(&mut self, row: &mut Row) {
        let (k, length, mut array) = (row.data, row.length, pointers(row));
        let (data, coding) = array.split_at_mut(k);
        // SAFETY: the row has `k` data and at least `parities` parity columns of `length` bytes.
        unsafe {
            ec_encode_data(
                length as c_int,
                k as c_int,
                self.parities as c_int,
                self.tables.as_mut_ptr(),
                data.as_mut_ptr(),
                coding.as_mut_ptr(),
            );
        }
    }
}
