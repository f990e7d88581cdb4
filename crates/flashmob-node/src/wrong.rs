//! Values that are wrong beside others, or for this device: clap cannot know.

/// A value that is wrong beside others, or for this device.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WrongValue(pub String);

/// Refuses an option's value; formats as `anyhow::bail`, and the exit status is that of wrong arguments.
#[macro_export]
macro_rules! bail_value {
    ($($text:tt)*) => {
        return Err($crate::WrongValue(format!($($text)*)).into())
    };
}

/// As `bail_value`, unless the condition holds.
#[macro_export]
macro_rules! ensure_value {
    ($holds:expr, $($text:tt)*) => {
        if !$holds {
            $crate::bail_value!($($text)*);
        }
    };
}
