//! Exact non-negative fractions. Everything is checked: an overflow is a bug of the test, never a wrong answer.

use std::cmp::Ordering;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Fraction {
    over: i128,
    under: i128,
}

fn gcd(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn times(a: i128, b: i128) -> i128 {
    a.checked_mul(b).expect("the model's fraction outgrew 128 bits")
}

fn divided_up(a: i128, b: i128) -> i128 {
    a.div_euclid(b) + i128::from(a.rem_euclid(b) != 0)
}

impl Fraction {
    pub(crate) const ZERO: Self = Self { over: 0, under: 1 };

    pub(crate) fn whole(value: i128) -> Self {
        Self { over: value, under: 1 }
    }

    /// `a * b / c`.
    pub(crate) fn ratio(a: i128, b: i128, c: i128) -> Self {
        Self { over: times(a, b), under: c }
    }

    /// The least multiple of 1/n that is not smaller.
    pub(crate) fn in_parts_of(self, n: i128) -> Self {
        if self.under == n {
            return self;
        }
        let (whole, rest) = (self.over.div_euclid(self.under), self.over.rem_euclid(self.under));
        Self { over: times(whole, n) + divided_up(times(rest, n), self.under), under: n }
    }

    /// `ceil(self * a / b)`: rounding up to parts of `a` first changes nothing.
    pub(crate) fn times_rounded_up(self, a: i128, b: i128) -> i128 {
        divided_up(self.in_parts_of(a).over, b)
    }

    pub(crate) fn is_zero(self) -> bool {
        self.over == 0
    }

    /// Both over one denominator: the two numerators and it.
    fn aligned(self, other: Self) -> (i128, i128, i128) {
        if self.under == other.under {
            return (self.over, other.over, self.under);
        }
        let shared = gcd(self.under, other.under);
        let (left, right) = (other.under / shared, self.under / shared);
        (times(self.over, left), times(other.over, right), times(self.under, left))
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        let (a, b, under) = self.aligned(other);
        Self { over: a + b, under }
    }

    /// The difference, or nothing where it would be negative.
    pub(crate) fn less(self, other: Self) -> Self {
        let (a, b, under) = self.aligned(other);
        Self { over: (a - b).max(0), under }
    }

    pub(crate) fn least(self, other: Self) -> Self {
        let (a, b, _) = self.aligned(other);
        if a <= b { self } else { other }
    }

    pub(crate) fn at_most(self, ceiling: i128) -> Self {
        match self.over.cmp(&times(ceiling, self.under)) {
            Ordering::Greater => Self::whole(ceiling),
            _ => self,
        }
    }
}
