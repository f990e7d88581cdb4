use std::fs::File;

use super::*;

/// This very program has functions, and SQLite's are not among them.
#[test]
fn functions_are_found_where_they_begin() {
    let path = std::env::current_exe().unwrap();
    let found = elf::functions(&File::open(&path).unwrap(), &["main", "sqlite3_step"]).unwrap();
    let [("main", offset)] = found[..] else { panic!("{found:?}") };
    assert!((1..std::fs::metadata(&path).unwrap().len()).contains(&offset), "{offset}");
    let again = elf::functions(&File::open(&path).unwrap(), &["main", "sqlite3_step"]).unwrap();
    assert_eq!(again, found);
}

#[test]
fn what_is_no_program_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for bytes in [&b""[..], b"#!/bin/sh\n", b"\x7fELF", &[0x7f; 300]] {
        std::fs::write(dir.path().join("file"), bytes).unwrap();
        let why = elf::functions(&File::open(dir.path().join("file")).unwrap(), &["main"]).unwrap_err();
        assert!(why.starts_with("it is no program or library: "), "{why}");
    }
}

#[test]
fn a_command_without_sqlite_means_the_libraries_that_there_are() {
    let libraries = find_sqlite(Path::new("flashmob-has-no-such-command"));
    assert_eq!(find_sqlite(Path::new("sh")), libraries, "a shell has no SQLite in it");
    for library in &libraries {
        assert!(library.is_absolute() && library.is_file(), "{}", library.display());
        assert_eq!(find_sqlite(library), std::slice::from_ref(library), "one that is named is taken for itself");
    }
}

#[test]
fn arguments_are_named_where_their_places_are_known() {
    assert_eq!(arguments("sqlite3_else"), "");
    if cfg!(target_arch = "x86_64") {
        assert_eq!(arguments("sqlite3_step"), " statement=%di");
        assert_eq!(arguments("sqlite3_prepare_v2"), " database=%di sql=+0(%si):string");
    }
}
