//! Opcodes: `enum fuse_opcode`.

macro_rules! opcodes {
    ($($(#[$doc:meta])* $name:ident = $code:literal,)*) => {
        /// The number that says what a request asks for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u32)]
        #[non_exhaustive]
        pub enum Opcode { $($(#[$doc])* $name = $code,)* }

        impl Opcode {
            /// All that are known.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The opcode with this number, if it is known.
            pub fn from_code(code: u32) -> Option<Self> {
                match code {
                    $($code => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

opcodes! {
    /// A name in a folder.
    Lookup = 1,
    /// Lookups of a node that are no longer held.
    Forget = 2,
    /// Attributes.
    Getattr = 3,
    /// Changes of attributes, and of a file's length.
    Setattr = 4,
    /// A symbolic link's target.
    Readlink = 5,
    /// Makes a symbolic link.
    Symlink = 6,
    /// Makes a file, a device, a pipe or a socket.
    Mknod = 8,
    /// Makes a folder.
    Mkdir = 9,
    /// Removes a name.
    Unlink = 10,
    /// Removes a folder.
    Rmdir = 11,
    /// Renames.
    Rename = 12,
    /// Adds a name.
    Link = 13,
    /// Opens a file.
    Open = 14,
    /// Reads a file.
    Read = 15,
    /// Writes to a file.
    Write = 16,
    /// How full the file system is.
    Statfs = 17,
    /// The last use of an open file has ended.
    Release = 18,
    /// Makes a file durable.
    Fsync = 20,
    /// Sets an extended attribute.
    Setxattr = 21,
    /// Reads an extended attribute.
    Getxattr = 22,
    /// Names of extended attributes.
    Listxattr = 23,
    /// Removes an extended attribute.
    Removexattr = 24,
    /// A descriptor of an open file is closed.
    Flush = 25,
    /// Begins a session.
    Init = 26,
    /// Opens a folder.
    Opendir = 27,
    /// Reads a folder.
    Readdir = 28,
    /// The last use of an open folder has ended.
    Releasedir = 29,
    /// Makes a folder durable.
    Fsyncdir = 30,
    /// Whether a file may be accessed.
    Access = 34,
    /// Makes a file and opens it.
    Create = 35,
    /// The caller of a request no longer wants to wait.
    Interrupt = 36,
    /// Ends a session; block mounts alone send it.
    Destroy = 38,
    /// Several forgets.
    BatchForget = 42,
    /// Reserves or frees space of a file.
    Fallocate = 43,
    /// Reads a folder, with a lookup of each entry.
    Readdirplus = 44,
    /// Renames with flags.
    Rename2 = 45,
    /// Where data or a hole begins.
    Lseek = 46,
    /// Copies from file to file.
    CopyFileRange = 47,
    /// Makes the whole file system durable.
    Syncfs = 50,
    /// Makes a file without a name.
    Tmpfile = 51,
    /// Attributes, with the time of birth.
    Statx = 52,
}

impl Opcode {
    /// Its number.
    pub fn code(self) -> u32 {
        self as u32
    }

    /// Whether the kernel waits for no answer.
    pub fn is_silent(self) -> bool {
        matches!(self, Self::Forget | Self::BatchForget | Self::Interrupt)
    }
}
