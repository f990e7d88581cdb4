//! Counters: each is declared once, with the name and the description under which `/status` and `/metrics` show it.

/// One counter of a `T`, as reports show it.
#[derive(Debug)]
pub struct Counter<T> {
    /// Its name in `/metrics`, without prefix and `_total`. `bytes/out` is the series of `bytes` whose label `direction` is `out`;
    /// an empty name is in no metric.
    pub metric: &'static str,
    /// Its description.
    pub help: &'static str,
    /// Its value.
    pub value: fn(&T) -> u64,
}

/// Declares a struct of counters that count up from a start, and their table. A counter whose name in `/metrics` is not that of its
/// field has it behind `as`.
macro_rules! counters {
    ($(#[$attribute:meta])* pub struct $name:ident {
        $($(#[$of_field:meta])* $field:ident $(as $metric:literal)?: $help:literal,)*
    }) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
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
