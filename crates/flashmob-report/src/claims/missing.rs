//! What a claim lacks to be judged.

/// Why a claim cannot be judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// What is missing, in words that end a sentence.
    pub what: String,
    /// Command that measures it, where that is not the claim's.
    pub command: Option<String>,
    /// Further conditions of that measurement; may be empty.
    pub measured_on: &'static str,
}

impl From<String> for Missing {
    fn from(what: String) -> Missing {
        Missing { what, command: None, measured_on: "" }
    }
}

impl From<&str> for Missing {
    fn from(what: &str) -> Missing {
        what.to_string().into()
    }
}
