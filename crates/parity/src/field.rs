//! GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1 (`0x11D`) and generator 2: the field of RAID-6 in
//! Linux md ("The mathematics of RAID-6", H. P. Anvin).
//!
//! Single-element arithmetic for coefficients, and the constant tables from which the kernels multiply whole
//! slices. All tables are computed at compile time.

/// Data columns a Q parity can tell apart: the generator has order 255.
pub const DATA_COLUMNS_MAX: usize = 255;

/// The polynomial without its x^8: what a carry out of the top bit adds.
pub(crate) const REDUCTION: u8 = 0x1D;

/// `2 * a`.
pub const fn double(a: u8) -> u8 {
    (a << 1) ^ if a & 0x80 != 0 { REDUCTION } else { 0 }
}

/// `a * b`.
pub const fn mul(a: u8, b: u8) -> u8 {
    let (mut product, mut a, mut b) = (0, a, b);
    while b != 0 {
        if b & 1 != 0 {
            product ^= a;
        }
        a = double(a);
        b >>= 1;
    }
    product
}

/// `2^exponent`: the coefficient of data column `exponent` in Q.
pub const fn power(exponent: usize) -> u8 {
    POWERS[exponent % DATA_COLUMNS_MAX]
}

/// `1 / a`. Zero has no inverse: panics.
pub const fn inverse(a: u8) -> u8 {
    POWERS[DATA_COLUMNS_MAX - log(a)]
}

/// The exponent `e < 255` for which `2^e` is `a`. Zero has none: panics.
///
/// With the two syndromes of a row in which one data column is wrong, `log(dq / dp)` is that column's index.
pub const fn log(a: u8) -> usize {
    assert!(a != 0, "zero is no power of the generator");
    LOGS[a as usize] as usize
}

/// `2^0 ..= 2^255`; the last equals the first, so that [`inverse`] needs no modulo.
const POWERS: [u8; DATA_COLUMNS_MAX + 1] = {
    let mut table = [1; DATA_COLUMNS_MAX + 1];
    let mut exponent = 1;
    while exponent < table.len() {
        table[exponent] = double(table[exponent - 1]);
        exponent += 1;
    }
    table
};

const LOGS: [u8; 256] = {
    let mut table = [0; 256];
    let mut exponent = 0;
    while exponent < DATA_COLUMNS_MAX {
        table[POWERS[exponent] as usize] = exponent as u8;
        exponent += 1;
    }
    table
};

/// Per coefficient the products with all low nibbles (16 bytes) and all high nibbles (16 bytes), which a byte
/// shuffle looks up. 8 KiB; built per call it would cost as much as multiplying a 4 KiB block.
pub(crate) static NIBBLES: [[[u8; 16]; 2]; 256] = {
    let mut table = [[[0; 16]; 2]; 256];
    let mut coefficient = 0;
    while coefficient < 256 {
        let mut nibble = 0;
        while nibble < 16 {
            table[coefficient][0][nibble] = mul(coefficient as u8, nibble as u8);
            table[coefficient][1][nibble] = mul(coefficient as u8, (nibble as u8) << 4);
            nibble += 1;
        }
        coefficient += 1;
    }
    table
};

/// Per coefficient the 8x8 bit matrix that multiplies by it, in the layout of GF2P8AFFINEQB: the row of
/// output bit `i` is byte `7 - i`. The instruction's own multiply has a fixed polynomial (0x11B) that is not
/// ours.
pub(crate) static MATRICES: [u64; 256] = {
    let mut table = [0; 256];
    let mut coefficient = 0;
    while coefficient < 256 {
        table[coefficient] = matrix(coefficient as u8);
        coefficient += 1;
    }
    table
};

const fn matrix(coefficient: u8) -> u64 {
    let mut rows = [0; 8];
    let mut bit_in = 0;
    while bit_in < 8 {
        let column = mul(coefficient, 1 << bit_in);
        let mut bit_out = 0;
        while bit_out < 8 {
            rows[7 - bit_out] |= ((column >> bit_out) & 1) << bit_in;
            bit_out += 1;
        }
        bit_in += 1;
    }
    u64::from_le_bytes(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_visits_every_element_but_zero() {
        let mut seen = [false; 256];
        (0..DATA_COLUMNS_MAX).for_each(|exponent| seen[power(exponent) as usize] = true);
        assert_eq!(seen.iter().filter(|seen| **seen).count(), DATA_COLUMNS_MAX);
        assert!(!seen[0]);
    }

    #[test]
    fn known_powers_of_the_raid6_field() {
        assert_eq!(
            [power(0), power(1), power(7), power(8), power(9), power(255)],
            [1, 2, 128, 0x1D, 0x3A, 1]
        );
    }

    #[test]
    fn inverse_and_log_undo_mul_and_power() {
        for a in 1..=255 {
            assert_eq!(mul(a, inverse(a)), 1);
            assert_eq!(power(log(a)), a);
        }
    }

    #[test]
    fn multiplication_is_commutative_and_distributes() {
        for (a, b) in (0..=255).flat_map(|a| (0..=255).map(move |b| (a, b))) {
            assert_eq!(mul(a, b), mul(b, a));
            assert_eq!(mul(a, b ^ 0x5A), mul(a, b) ^ mul(a, 0x5A));
        }
    }
}
