//! Plain numbers that one owner counts in, by name.

/// Makes a struct of numbers, `Kind { field "name" "Sentence.", }`, and of other
/// such structs, `+ field: Type, "Sentence.";`, with their sums and a walk over
/// all numbers.
#[macro_export]
macro_rules! metrics {
    ($(#[$doc:meta])* pub struct $Metrics:ident: $number:ty {
        $($kind:ident { $($field:ident $name:literal $help:literal,)* })*
        $(+ $part:ident: $Part:ty, $part_help:literal;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $Metrics {
            $($(#[doc = $help] pub $field: $number,)*)*
            $(#[doc = $part_help] pub $part: $Part,)*
        }

        impl $Metrics {
            /// Adds all numbers of `other` to these.
            pub fn add(&mut self, other: &Self) {
                $($(self.$field += other.$field;)*)*
                $(self.$part.add(&other.$part);)*
            }

            /// Every number.
            pub fn metrics(&self) -> impl Iterator<Item = $crate::Metric> {
                let own = [$($($crate::Metric {
                    name: $name,
                    kind: $crate::CounterKind::$kind,
                    help: $help,
                    value: self.$field as u64,
                },)*)*];
                own.into_iter()$(.chain(self.$part.metrics()))*
            }
        }
    };
}
