//! Enums whose variants have names in JSON.

/// Defines an enum, the array `ALL` of its variants, and their names. The schema takes its values from `ALL`, so it can miss
/// none.
macro_rules! named {
    (
        $(#[$about:meta])*
        pub enum $Name:ident { $($(#[$meaning:meta])* $Variant:ident = $name:literal,)+ }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $Name { $($(#[$meaning])* $Variant,)+ }

        impl $Name {
            /// All of them, in the order of declaration.
            pub const ALL: [$Name; [$($name),+].len()] = [$($Name::$Variant),+];

            /// Returns its name in JSON.
            pub const fn name(self) -> &'static str {
                match self { $($Name::$Variant => $name),+ }
            }
        }
    };
}

pub(crate) use named;
