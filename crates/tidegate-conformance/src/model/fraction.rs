//! Exact non-negative fractions. All arithmetic is checked: an overflow panics and never gives a wrong answer.

use std::cmp::Ordering;

#[derive(Clone, Copy, Debug)]
pub(super) struct Fraction {
    numerator: i128,
    denominator: i128,
}

fn gcd(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn product(a: i128, b: i128) -> i128 {
    a.checked_mul(b).expect("a fraction of the model exceeds 128 bits")
}

fn divide_rounding_up(a: i128, b: i128) -> i128 {
    a.div_euclid(b) + i128::from(a.rem_euclid(b) != 0)
}

impl Fraction {
    pub(super) const ZERO: Self = Self { numerator: 0, denominator: 1 };

    pub(super) fn whole(value: i128) -> Self {
        Self { numerator: value, denominator: 1 }
    }

    /// `a * b / c`.
    pub(super) fn ratio(a: i128, b: i128, c: i128) -> Self {
        Self { numerator: product(a, b), denominator: c }
    }

    /// Rounds up to a multiple of 1/n.
    pub(super) fn round_up_to_parts_of(self, n: i128) -> Self {
        if self.denominator == n {
            return self;
        }
        let (whole, rest) = (self.numerator.div_euclid(self.denominator), self.numerator.rem_euclid(self.denominator));
        let numerator = product(whole, n) + divide_rounding_up(product(rest, n), self.denominator);
        Self { numerator, denominator: n }
    }

    /// `ceil(self * a / b)`. Rounding up to parts of `a` first does not change the result.
    pub(super) fn times_rounded_up(self, a: i128, b: i128) -> i128 {
        divide_rounding_up(self.round_up_to_parts_of(a).numerator, b)
    }

    pub(super) fn is_zero(self) -> bool {
        self.numerator == 0
    }

    /// Both numerators over the common denominator, and the denominator.
    fn with_common_denominator(self, other: Self) -> (i128, i128, i128) {
        if self.denominator == other.denominator {
            return (self.numerator, other.numerator, self.denominator);
        }
        let shared = gcd(self.denominator, other.denominator);
        let (left, right) = (other.denominator / shared, self.denominator / shared);
        (product(self.numerator, left), product(other.numerator, right), product(self.denominator, left))
    }

    pub(super) fn plus(self, other: Self) -> Self {
        let (a, b, denominator) = self.with_common_denominator(other);
        Self { numerator: a + b, denominator }
    }

    /// The difference, but at least 0.
    pub(super) fn saturating_minus(self, other: Self) -> Self {
        let (a, b, denominator) = self.with_common_denominator(other);
        Self { numerator: (a - b).max(0), denominator }
    }

    pub(super) fn min(self, other: Self) -> Self {
        let (a, b, _) = self.with_common_denominator(other);
        if a <= b { self } else { other }
    }

    pub(super) fn at_most(self, maximum: i128) -> Self {
        match self.numerator.cmp(&product(maximum, self.denominator)) {
            Ordering::Greater => Self::whole(maximum),
            _ => self,
        }
    }
}
