//! Logarithm and exponential that are the same on every machine.
//!
//! The standard library's versions come from the platform and may differ in the last bit, which would change
//! the run of a seed. These use only operations that IEEE 754 rounds exactly.

use std::f64::consts::{LN_2, SQRT_2};

/// The natural logarithm of a positive normal number, to about 1e-15.
pub(super) fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) & 0x7ff) as i32 - 1023;
    let mut mantissa = f64::from_bits(bits & 0x000f_ffff_ffff_ffff | 1023 << 52);
    if mantissa > SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    // ln m = 2 atanh z with z = (m - 1) / (m + 1); |z| < 0.172, so z^24 is below 1e-18.
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let sum = (0..12).rev().fold(0.0, |sum, k| sum * z * z + 1.0 / f64::from(2 * k + 1));
    f64::from(exponent) * LN_2 + 2.0 * z * sum
}

/// e^x for |x| up to 700, to about 1e-14 of its value.
pub(super) fn exp(x: f64) -> f64 {
    let halvings = (x / LN_2 + if x < 0.0 { -0.5 } else { 0.5 }) as i32;
    let rest = x - f64::from(halvings) * LN_2;
    // |rest| < 0.35, so rest^17 / 17! is below 1e-22.
    let sum = (1..17).rev().fold(1.0, |sum, k| 1.0 + sum * rest / f64::from(k));
    f64::from_bits(((halvings + 1023) as u64) << 52) * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_agree_with_the_platform() {
        for step in 1..10_000 {
            let x = f64::from(step) * 0.37;
            assert!((ln(x) - x.ln()).abs() < 1e-14 * (1.0 + x.ln().abs()), "ln {x}");
            let y = f64::from(step - 5000) * 0.11;
            assert!((exp(y) / y.exp() - 1.0).abs() < 1e-12, "exp {y}");
        }
    }
}
