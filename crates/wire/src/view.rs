//! What the views of all headers have in common.
//!
//! A view holds the fixed part of a header as an array: owned, borrowed or
//! mutably borrowed. Every field lies inside the array, which the compiler
//! checks, so no accessor can fail.

/// Makes the struct `Header` over an array of `LEN` bytes, with the splitting
/// constructors and the accessors of fields that are plain big-endian numbers
/// or convert from and into bytes.
macro_rules! header {
    (
        $(#[$doc:meta])* $len:literal
        $( $(#[$field_doc:meta])* $at:literal .. $size:literal $get:ident $set:ident : $kind:ty; )*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Header<B>(B);

        /// The length of the header's fixed part in bytes.
        pub const LEN: usize = $len;

        impl<B: ::std::borrow::Borrow<[u8; LEN]>> Header<B> {
            /// The view of exactly this header.
            pub const fn new(bytes: B) -> Self {
                Self(bytes)
            }

            /// The header's fixed part.
            pub fn as_bytes(&self) -> &[u8; LEN] {
                self.0.borrow()
            }

            $(
                $(#[$field_doc])*
                #[inline]
                pub fn $get(&self) -> $kind {
                    let bytes = $crate::bytes::field::<$at, { $size }, LEN>(self.0.borrow());
                    <$kind as $crate::view::Field<{ $size }>>::from_wire(bytes)
                }
            )*
        }

        impl<B: ::std::borrow::BorrowMut<[u8; LEN]>> Header<B> {
            $(
                #[doc = concat!("Sets what [`", stringify!($get), "`](Self::", stringify!($get), ") reads.")]
                #[inline]
                pub fn $set(&mut self, value: $kind) {
                    let bytes = <$kind as $crate::view::Field<{ $size }>>::to_wire(value);
                    $crate::bytes::set::<$at, { $size }, LEN>(self.0.borrow_mut(), bytes);
                }
            )*
        }

        impl<'a> Header<&'a [u8; LEN]> {
            /// The header at the front of `bytes`, and what follows its fixed part.
            ///
            /// # Errors
            /// [`Malformed::Truncated`](crate::Malformed) if `bytes` is shorter.
            pub fn split(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), $crate::Malformed> {
                let (header, rest) =
                    bytes.split_first_chunk().ok_or($crate::Malformed::Truncated)?;
                Ok((Self(header), rest))
            }
        }

        impl<'a> Header<&'a mut [u8; LEN]> {
            /// As [`split`](Header::split), writable.
            ///
            /// # Errors
            /// [`Malformed::Truncated`](crate::Malformed) if `bytes` is shorter.
            pub fn split_mut(
                bytes: &'a mut [u8],
            ) -> Result<(Self, &'a mut [u8]), $crate::Malformed> {
                let (header, rest) =
                    bytes.split_first_chunk_mut().ok_or($crate::Malformed::Truncated)?;
                Ok((Self(header), rest))
            }
        }
    };
}
pub(crate) use header;

/// A value that is `N` bytes on the wire.
pub(crate) trait Field<const N: usize> {
    /// From wire order.
    fn from_wire(bytes: [u8; N]) -> Self;
    /// To wire order.
    fn to_wire(self) -> [u8; N];
}

macro_rules! number {
    ($($kind:ty: $size:literal),*) => {
        $(impl Field<$size> for $kind {
            #[inline]
            fn from_wire(bytes: [u8; $size]) -> Self {
                <$kind>::from_be_bytes(bytes)
            }
            #[inline]
            fn to_wire(self) -> [u8; $size] {
                self.to_be_bytes()
            }
        })*
    };
}
number!(u8: 1, u16: 2, u32: 4);

macro_rules! address {
    ($($kind:ty: $size:literal),*) => {
        $(impl Field<$size> for $kind {
            #[inline]
            fn from_wire(bytes: [u8; $size]) -> Self {
                <$kind>::from(bytes)
            }
            #[inline]
            fn to_wire(self) -> [u8; $size] {
                self.octets()
            }
        })*
    };
}
address!(std::net::Ipv4Addr: 4, std::net::Ipv6Addr: 16);

impl<const N: usize> Field<N> for [u8; N] {
    #[inline]
    fn from_wire(bytes: [u8; N]) -> Self {
        bytes
    }

    #[inline]
    fn to_wire(self) -> [u8; N] {
        self
    }
}

impl Field<6> for crate::Mac {
    #[inline]
    fn from_wire(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }

    #[inline]
    fn to_wire(self) -> [u8; 6] {
        self.0
    }
}
