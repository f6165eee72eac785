//! Which gaps between a member's requests are worth filling: by the thresholds of msc-ct III-D, or weighed by the curve that
//! the stride benchmark measured.

use stripewise_format::extension::{Header, STRIDE_REGIONS, STRIDES, StrideRecord};

use super::gaps::Edges;
use crate::shape::rows::ROWS_MAX;

/// The longest stride that is measured, in blocks (msc-ct Fig. 9).
pub const STRIDE_MAX: u16 = STRIDES as u16;

/// By which rule gaps are filled where an operator gave no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GapRule {
    /// Each by what it gains, reads together with the writes that they let be joined.
    #[default]
    Weighed,
    /// As msc-ct III-D: those below S_max, but for except regions; reads and writes by themselves.
    Thresholds,
}

impl GapRule {
    /// All of them. Members keep the number, which is one more than the place here.
    pub const ALL: [Self; 2] = [Self::Weighed, Self::Thresholds];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Weighed => "weighed",
            Self::Thresholds => "thresholds",
        }
    }
}

/// What a gap that shall stay gains.
const NEVER: i16 = i16::MIN;
/// So much longer, in thousandths, is within what the same pass takes one time and another.
const SCATTER: i32 = 20;

/// The gaps that a member takes longer to skip than to fill, for reads or for writes. The stride of a gap is the number of
/// blocks from the start of the one before to the start of the one behind (msc-ct III-D).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strides {
    /// msc-ct (8), (9): those of all strides below a limit that are in no excepted region.
    Limit {
        /// S_max: the smallest stride, in blocks, that is too long to be filled. Nothing is filled if it is 2 or less.
        max: u16,
        /// Regions of shorter strides that are not filled either, from the first to the last; 0 to 0 where there are
        /// fewer.
        except: [[u16; 2]; STRIDE_REGIONS],
    },
    /// Ours: each by what it gains, by its stride, in hundredths of the time of one block among others.
    Weighed([i16; STRIDES + 1]),
}

impl Default for Strides {
    fn default() -> Self {
        Self::below(0)
    }
}

impl Strides {
    /// Strides below this one.
    pub const fn below(max: u16) -> Self {
        Self::Limit { max, except: [[0; 2]; STRIDE_REGIONS] }
    }

    /// By what a member keeps, and a rule. An operator's limit is meant as it is.
    pub fn of(record: &StrideRecord, rule: GapRule) -> Self {
        let max = record.s_max.min(ROWS_MAX as u32) as u16;
        match rule {
            _ if record.s_max_given => Self::below(max),
            GapRule::Thresholds => {
                Self::Limit { max, except: record.except.map(|region| region.map(u16::from)) }
            }
            GapRule::Weighed => Self::weighed(&record.times),
        }
    }

    /// By a measured curve: for each stride from 1 on the time of a pass over every block at it, in thousandths of the time
    /// of all blocks; 0 where none was measured, which lies between its neighbours. A gap gains what its stride takes more
    /// than its blocks do. Nothing is filled beyond the longest stride of the curve.
    pub fn weighed(times: &[u16; STRIDES]) -> Self {
        let mut gains = [NEVER; STRIDES + 1];
        let mut known =
            (1..).zip(times.iter().copied().map(i32::from)).filter(|(_, time)| *time > 0).peekable();
        while let Some((from, start)) = known.next() {
            let (to, end) = known.peek().copied().unwrap_or((from + 1, start));
            for stride in from..to {
                let time = start + (end - start) * (stride - from) / (to - from);
                let gain = stride * (time - 1000 - SCATTER) / 10;
                gains[stride as usize] = gain.clamp((NEVER + 1).into(), i16::MAX.into()) as i16;
            }
        }
        Self::Weighed(gains)
    }

    /// What it gains to fill a gap of this stride, in hundredths of the time of one block among others, or 1 where a limit
    /// decides. None if it shall not be filled, whatever else that would gain.
    pub fn gain(&self, stride: usize) -> Option<i32> {
        match self {
            Self::Limit { max, except } => {
                let is_within = |[first, last]: &[u16; 2]| (*first..=*last).contains(&(stride as u16));
                (stride < usize::from(*max) && !except.iter().any(is_within)).then_some(1)
            }
            Self::Weighed(gains) => gains.get(stride).copied().filter(|gain| *gain > NEVER).map(i32::from),
        }
    }

    /// No gap of this stride or a longer one is worth filling.
    fn end(&self) -> u16 {
        match self {
            Self::Limit { max, .. } => *max,
            Self::Weighed(gains) => {
                gains.iter().rposition(|gain| *gain > 0).map_or(0, |last| last as u16 + 1)
            }
        }
    }
}

/// The strides of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemberStrides {
    /// Of reads.
    pub read: Strides,
    /// Of writes.
    pub write: Strides,
}

impl MemberStrides {
    /// Nothing is filled.
    pub const NONE: Self = Self { read: Strides::below(0), write: Strides::below(0) };

    /// By what a member's header keeps.
    pub fn of(header: &Header, rule: GapRule) -> Self {
        Self { read: Strides::of(&header.stride_read, rule), write: Strides::of(&header.stride_write, rule) }
    }

    /// No gap of this stride or a longer one is worth filling.
    pub fn end(&self) -> u16 {
        self.read.end().max(self.write.end())
    }
}

/// The members' strides, by column of the stripe.
pub trait ColumnStrides {
    /// The strides of a column's member.
    fn of(&self, column: usize) -> MemberStrides;

    /// What its member does in the chunks beside this one.
    fn edges(&self, _column: usize) -> Edges {
        Edges::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(usize, u16)]) -> [u16; STRIDES] {
        let mut times = [0; STRIDES];
        points.iter().for_each(|(stride, time)| times[stride - 1] = *time);
        times
    }

    #[test]
    fn a_gap_gains_what_its_stride_takes_more_than_its_blocks() {
        let strides = Strides::weighed(&curve(&[(1, 1000), (2, 3000), (4, 1220), (8, 1020), (16, 920)]));
        assert_eq!(strides.gain(2), Some(396), "2 x (3 - 1.02)");
        assert_eq!(strides.gain(3), Some(327), "3 x (2.11 - 1.02)");
        assert_eq!(strides.gain(4), Some(80));
        assert_eq!([strides.gain(8), strides.gain(16)], [Some(0), Some(-160)]);
        assert_eq!(strides.gain(17), None, "beyond what was measured");
        assert_eq!(strides.end(), 8);
    }

    #[test]
    fn what_was_not_measured_gains_nothing() {
        let strides = Strides::weighed(&[0; STRIDES]);
        assert!((0..300).all(|stride| strides.gain(stride).is_none()));
        assert_eq!(strides.end(), 0);
    }

    #[test]
    fn an_operators_limit_goes_before_what_was_measured() {
        let record = StrideRecord {
            s_max: 300,
            s_max_given: true,
            except: [[2, 3]; STRIDE_REGIONS],
            times: [500; STRIDES],
        };
        assert!(GapRule::ALL.iter().all(|rule| Strides::of(&record, *rule) == Strides::below(256)));
        let measured = StrideRecord { s_max_given: false, ..record };
        assert_eq!(Strides::of(&measured, GapRule::Thresholds).gain(2), None);
        assert_eq!(Strides::of(&measured, GapRule::Weighed).end(), 0);
    }

    #[test]
    fn times_of_any_size_have_a_gain() {
        let strides = Strides::weighed(&[u16::MAX; STRIDES]);
        assert_eq!(strides.gain(64), Some(i16::MAX.into()));
        assert_eq!(Strides::weighed(&[1; STRIDES]).gain(64), Some(-6521));
    }

    #[test]
    fn a_limit_fills_what_is_below_it_and_not_excepted() {
        let strides = Strides::Limit { max: 9, except: [[3, 4], [0; 2], [0; 2], [0; 2]] };
        let filled: Vec<usize> = (0..300).filter(|stride| strides.gain(*stride).is_some()).collect();
        assert_eq!(filled, [1, 2, 5, 6, 7, 8]);
        assert_eq!(strides.end(), 9);
    }
}
