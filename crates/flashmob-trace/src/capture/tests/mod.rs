//! Sessions: what they refuse needs no rights; what they capture does.

mod privileged;

use super::*;

fn event(system: &str, name: &str, scope: Scope) -> Event {
    Event { system: system.into(), name: name.into(), scope, filter: None }
}

#[test]
fn a_name_that_would_be_another_file_is_refused() {
    for name in ["", "..", ".", "a/b", "a b", "a\nb", "../../trace"] {
        for event in [event("block", name, Scope::All), event(name, "block_rq_issue", Scope::Threads)] {
            let error = Session::open(&Wanted { events: vec![event], ..Wanted::default() }).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("'{name}' cannot be the name of an event: letters, digits, '_', '-' and '.' only")
            );
        }
    }
}
