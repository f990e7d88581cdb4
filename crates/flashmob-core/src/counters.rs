//! Counters, each declared once with its name and description in `/status` and `/metrics`.

/// One counter of a `T`, as reports show it.
#[derive(Debug)]
pub struct Counter<T> {
    /// Its name in `/metrics`, without prefix and `_total`. `bytes/out` is the series of `bytes` with the label `direction="out"`. A
    /// counter with an empty name is not in `/metrics`.
    pub metric: &'static str,
    /// Its description.
    pub help: &'static str,
    /// Its value.
    pub value: fn(&T) -> u64,
}

/// Declares a struct of counters and their table. The name in `/metrics` stands behind `as` where it differs from the field's.
macro_rules! counters {
    ($(#[$attribute:meta])* pub struct $name:ident {
        $($(#[$of_field:meta])* $field:ident $(as $metric:literal)?: $help:literal,)*
    }) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub struct $name {
            $(#[doc = $help] $(#[$of_field])* pub $field: u64,)*
        }

        impl $name {
            /// All of them, in the order of reports.
            pub const TABLE: &[$crate::counters::Counter<$name>] = &[$($crate::counters::Counter {
                metric: [$($metric,)? stringify!($field)][0],
                help: $help,
                value: |counters| counters.$field,
            }),*];
        }
    };
}
pub(crate) use counters;
