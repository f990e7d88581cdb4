//! Enums whose variants are listed once, with their numbers on the wire and their names.

/// Declares an enum with a table `ALL` of its variants. If all have a number, `from_wire` finds the variant of a number; if all have a
/// name behind `=>`, `name` returns it.
macro_rules! listed {
    ($(#[$attribute:meta])* pub enum $type:ident {
        $($(#[$of_variant:meta])* $variant:ident = $number:literal => $name:literal,)*
    }) => {
        listed! { $(#[$attribute])* pub enum $type { $($(#[$of_variant])* $variant = $number,)* } }
        listed! { @name $type $($variant $name)* }
    };
    ($(#[$attribute:meta])* pub enum $type:ident {
        $($(#[$of_variant:meta])* $variant:ident = $number:literal,)*
    }) => {
        listed! { @all $(#[$attribute])* $type $($(#[$of_variant])* $variant = $number,)* }

        impl $type {
            /// The variant of a number on the wire.
            #[must_use]
            pub fn from_wire(byte: u8) -> Option<$type> {
                $type::ALL.into_iter().find(|&variant| variant as u8 == byte)
            }
        }
    };
    ($(#[$attribute:meta])* pub enum $type:ident {
        $($(#[$of_variant:meta])* $variant:ident $(= $number:literal)? => $name:literal,)*
    }) => {
        listed! { @all $(#[$attribute])* $type $($(#[$of_variant])* $variant $(= $number)?,)* }
        listed! { @name $type $($variant $name)* }
    };
    (@all $(#[$attribute:meta])* $type:ident
        $($(#[$of_variant:meta])* $variant:ident $(= $number:literal)?,)*
    ) => {
        $(#[$attribute])*
        pub enum $type {
            $($(#[$of_variant])* $variant $(= $number)?,)*
        }

        impl $type {
            /// All variants, in order.
            pub const ALL: [$type; [$(stringify!($variant)),*].len()] = [$($type::$variant),*];
        }
    };
    (@name $type:ident $($variant:ident $name:literal)*) => {
        impl $type {
            /// The variant's name in messages, metrics and results.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $name,)*
                }
            }
        }
    };
}
pub(crate) use listed;
