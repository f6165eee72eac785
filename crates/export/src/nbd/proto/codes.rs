//! Numbers of the protocol text: magics, flags, error values.

/// `NBDMAGIC`, the first word of a server.
pub const NBD_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`, the second word of a newstyle server, and the first of each option.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Begins each reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Begins each request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Begins each simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Begins each chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// The IANA port of NBD.
pub const DEFAULT_PORT: u16 = 10809;

/// Information requests of `NBD_OPT_INFO` and `NBD_OPT_GO`.
pub mod info {
    /// Size and transmission flags.
    pub const EXPORT: u16 = 0;
    /// The canonical name.
    pub const NAME: u16 = 1;
    /// Text for people.
    pub const DESCRIPTION: u16 = 2;
    /// Minimum, preferred and maximum sizes.
    pub const BLOCK_SIZE: u16 = 3;
}

/// The metadata context whose block status reports allocation.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// Its identifier in this server's replies; there is no other context to confuse it with.
pub const BASE_ALLOCATION_ID: u32 = 1;
/// `NBD_STATE_HOLE`: not allocated.
pub const STATE_HOLE: u32 = 1;
/// `NBD_STATE_ZERO`: reads as zeroes.
pub const STATE_ZERO: u32 = 2;
/// `NBD_REPLY_FLAG_DONE`: the last chunk of a reply.
pub const REPLY_FLAG_DONE: u16 = 1;

/// A client's own name for a request, returned in the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cookie(pub u64);

macro_rules! flags {
    ($(#[$doc:meta])* $name:ident($int:ty) { $($(#[$flag_doc:meta])* $flag:ident = $bit:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name(pub $int);

        impl $name {
            $($(#[$flag_doc])* pub const $flag: Self = Self(1 << $bit);)*

            /// Whether every bit of `other` is set.
            pub fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// The bits that are set here and not in `allowed`.
            pub fn beyond(self, allowed: Self) -> Self {
                Self(self.0 & !allowed.0)
            }

            /// `flag` if `condition` holds, else nothing.
            pub fn when(condition: bool, flag: Self) -> Self {
                if condition { flag } else { Self(0) }
            }
        }

        impl std::ops::BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }
    };
}

flags! {
    /// The server's handshake flags.
    HandshakeFlags(u16) {
        /// Options other than the export's name are understood.
        FIXED_NEWSTYLE = 0,
        /// The server can leave out the 124 zeroes behind `NBD_OPT_EXPORT_NAME`.
        NO_ZEROES = 1,
    }
}

flags! {
    /// The client's handshake flags.
    ClientFlags(u32) {
        /// The client takes option replies.
        FIXED_NEWSTYLE = 0,
        /// The client wants no 124 zeroes.
        NO_ZEROES = 1,
    }
}

flags! {
    /// What an export can do.
    TransmissionFlags(u16) {
        /// Always set.
        HAS_FLAGS = 0,
        /// Writes are refused.
        READ_ONLY = 1,
        /// FLUSH is understood.
        SEND_FLUSH = 2,
        /// FUA is understood.
        SEND_FUA = 3,
        /// The medium rotates: the elevator pays.
        ROTATIONAL = 4,
        /// TRIM is understood.
        SEND_TRIM = 5,
        /// WRITE_ZEROES is understood.
        SEND_WRITE_ZEROES = 6,
        /// READ with DF is understood; set only with structured replies.
        SEND_DF = 7,
        /// A flush on one connection covers the writes of all.
        CAN_MULTI_CONN = 8,
        /// CACHE is understood.
        SEND_CACHE = 10,
        /// WRITE_ZEROES with FAST_ZERO is understood.
        SEND_FAST_ZERO = 11,
    }
}

flags! {
    /// Modifiers of one request.
    CommandFlags(u16) {
        /// Durable before it is answered.
        FUA = 0,
        /// Zeroes must stay allocated.
        NO_HOLE = 1,
        /// One content chunk only.
        DF = 2,
        /// One extent only.
        REQ_ONE = 3,
        /// Zeroes only if faster than a write.
        FAST_ZERO = 4,
    }
}

/// The error values of the protocol; they happen to equal Linux's errnos.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum NbdErrno {
    /// Not permitted: a write to a read-only export.
    Perm = 1,
    /// The medium failed.
    Io = 5,
    /// No memory.
    NoMemory = 12,
    /// The request is malformed, misaligned or beyond the end.
    Invalid = 22,
    /// The store is full, or a write goes beyond the end.
    NoSpace = 28,
    /// Larger than can be answered.
    Overflow = 75,
    /// No fast zeroes.
    NotSupported = 95,
    /// The server is going down.
    Shutdown = 108,
}

impl NbdErrno {
    /// The number on the wire.
    pub fn code(self) -> u32 {
        self as u32
    }

    /// A number from the wire. The protocol demands that unknown numbers count as EINVAL; so does zero, which
    /// is no error number.
    pub fn from_code(code: u32) -> Self {
        let known = [
            Self::Perm,
            Self::Io,
            Self::NoMemory,
            Self::NoSpace,
            Self::Overflow,
            Self::NotSupported,
            Self::Shutdown,
        ];
        known.into_iter().find(|errno| errno.code() == code).unwrap_or(Self::Invalid)
    }
}
