//! Parity as one would write it on paper: one byte at a time, sharing nothing with the crate under test.

/// Multiplies as polynomials over GF(2), then divides by x^8 + x^4 + x^3 + x^2 + 1.
pub(crate) fn mul(a: u8, b: u8) -> u8 {
    let mut product: u32 = 0;
    for bit in 0..8 {
        if b & (1 << bit) != 0 {
            product ^= u32::from(a) << bit;
        }
    }
    for bit in (8..15).rev() {
        if product & (1 << bit) != 0 {
            product ^= 0b1_0001_1101 << (bit - 8);
        }
    }
    product as u8
}

pub(crate) fn power(exponent: usize) -> u8 {
    (0..exponent).fold(1, |power, _| mul(power, 2))
}

pub(crate) fn xor(length: usize, sources: &[&[u8]]) -> Vec<u8> {
    (0..length).map(|at| sources.iter().fold(0, |sum, source| sum ^ source[at])).collect()
}

pub(crate) fn p(length: usize, data: &[Option<&[u8]>]) -> Vec<u8> {
    xor(length, &data.iter().copied().flatten().collect::<Vec<_>>())
}

pub(crate) fn q(length: usize, data: &[Option<&[u8]>]) -> Vec<u8> {
    let mut q = vec![0; length];
    for (index, column) in data.iter().enumerate() {
        let Some(column) = column else { continue };
        let coefficient = power(index);
        q.iter_mut().zip(*column).for_each(|(q, d)| *q ^= mul(coefficient, *d));
    }
    q
}
