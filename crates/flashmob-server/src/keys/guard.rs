//! A process that has private keys leaves no image of its memory behind.

use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};

/// From now on this process writes no core file, and others of the same user cannot look into its memory. Where the system does not allow that, it goes on.
pub(super) fn keep_memory_private() {
    let maximum = getrlimit(Resource::Core).maximum;
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum });
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_core_file() {
        keep_memory_private();
        assert_eq!(getrlimit(Resource::Core).current, Some(0));
        assert_eq!(rustix::process::dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
    }
}
