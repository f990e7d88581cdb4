//! Text that is not TOML: what is said about it, word for word.

use crate::check;

#[test]
fn values_without_quotes_are_told_how_to_be_written() {
    check(
        r#"listen = 127.0.0.1:10809
[[volume]]
name = pool  # mine
timeout = 10s
size = 64 KiB
read_only = True
links = 007
[[volume.node]]
address = "tablet"
"#,
        r#"error: `127.0.0.1:10809` needs quotes
 --> gateway.toml:1:10
  |
1 | listen = 127.0.0.1:10809
  |          ^^^^^^^^^^^^^^^
  = help: write listen = "127.0.0.1:10809"

error: `pool` needs quotes
 --> gateway.toml:3:8
  |
3 | name = pool  # mine
  |        ^^^^
  = help: write name = "pool"

error: `10s` needs quotes
 --> gateway.toml:4:11
  |
4 | timeout = 10s
  |           ^^^
  = help: write timeout = "10s"

error: `64 KiB` needs quotes
 --> gateway.toml:5:8
  |
5 | size = 64 KiB
  |        ^^^^^^
  = help: write size = "64 KiB"

error: `True` needs small letters
 --> gateway.toml:6:13
  |
6 | read_only = True
  |             ^^^^
  = help: write read_only = true, in small letters

error: `007` is not how TOML writes a number
 --> gateway.toml:7:9
  |
7 | links = 007
  |         ^^^
  = help: write links = 7

error: gateway.toml has 6 problems"#,
    );
}

#[test]
fn a_key_or_header_may_not_repeat() {
    check(
        r#"[[volume]]
name = "pool"
name = "pool"
[volume]
x = 1
"#,
        r#"error: this key is already set in the same section
 --> gateway.toml:3:1
  |
3 | name = "pool"
  | ^^^^
  = help: remove one of the two lines

error: this header is already in the file
 --> gateway.toml:4:2
  |
4 | [volume]
  |  ^^^^^^
  = help: write [[volume]] and [[volume.node]] with double brackets to add another

error: gateway.toml has 2 problems"#,
    );
}

#[test]
fn a_header_needs_its_brackets() {
    check(
        r#"[[volume]
name = "pool"
"#,
        r#"error: invalid header: unclosed array table, expected `]`
 --> gateway.toml:1:10
  |
1 | [[volume]
  |          ^
  = help: headers are [[volume]], [volume.socket] and [[volume.node]]"#,
    );
}

#[test]
fn a_line_needs_a_key_and_a_value() {
    check(
        r#"[[volume]]
name =
links
: 3
a == 3
"#,
        r#"error: missing value after =
 --> gateway.toml:2:7
  |
2 | name =
  |       ^
  = help: write name = ..., with the value

error: `links` is not a valid line
 --> gateway.toml:3:6
  |
3 | links
  |      ^
  = help: write key = value, or start a comment with #

error: `: 3` is not a valid line
 --> gateway.toml:4:3
  |
4 | : 3
  |   ^
  = help: write key = value, or start a comment with #

error: this is not TOML: extra `=`, expected nothing
 --> gateway.toml:5:4
  |
5 | a == 3
  |    ^^^
  = help: see https://toml.io for how TOML is written

error: gateway.toml has 4 problems"#,
    );
}

#[test]
fn a_text_ends_on_its_line() {
    check(
        r#"[[volume]]
name = "pool
id = 'x
"#,
        r#"error: this text is not closed
 --> gateway.toml:2:8
  |
2 | name = "pool
  |        ^^^^^
  = help: end it on the same line with the same quotation mark

error: this text is not closed
 --> gateway.toml:3:6
  |
3 | id = 'x
  |      ^^
  = help: end it on the same line with the same quotation mark

error: gateway.toml has 2 problems"#,
    );
}

#[test]
fn a_backslash_is_an_escape() {
    check(
        r#"[[volume]]
name = "pool"
description = "C:\quick"
"#,
        r#"error: a backslash in this text starts no TOML escape sequence
 --> gateway.toml:3:15
  |
3 | description = "C:\quick"
  |               ^^^^^^^^^^
  = help: write \\ for a backslash, or put the whole text in '...'"#,
    );
}

#[test]
fn control_characters_are_refused_and_shown_harmless() {
    check(
        "[[volume]]\nname = \"a\u{1b}b\"\n",
        r#"error: this text has a character that cannot be printed
 --> gateway.toml:2:8
  |
2 | name = "a\u{1b}b"
  |        ^^^^^^^^^^
  = help: remove it, or write it as an escape such as "\t""#,
    );
}

#[test]
fn an_open_list_is_closed_before_the_next_header() {
    check(
        r#"listen = ["127.0.0.1:1",
[[volume]]
name = "pool"
[[volume.node]]
address = "tablet"
"#,
        r#"error: a list above this header is not closed
 --> gateway.toml:2:3
  |
2 | [[volume]]
  |   ^^^^^^
  = help: close it with ] before this line"#,
    );
}

#[test]
fn a_header_stands_alone() {
    check(
        r#"[[volume]] name = "x"
"#,
        r#"error: something follows the header
 --> gateway.toml:1:12
  |
1 | [[volume]] name = "x"
  |            ^
  = help: write the header and every key on a line of its own"#,
    );
}

#[test]
fn every_key_has_its_own_line() {
    check(
        r#"[[volume]]
name = "pool"
links = 1 batch = 3
"#,
        r#"error: there are two keys on this line
 --> gateway.toml:3:9
  |
3 | links = 1 batch = 3
  |         ^^^^^^^^^^^
  = help: write every key on a line of its own"#,
    );
}

#[test]
fn what_resembles_nothing_gets_the_words_of_the_parser() {
    check(
        r#"{}
= 4
"#,
        r#"error: `{}` is not a valid line
 --> gateway.toml:1:1
  |
1 | {}
  | ^
  = help: write key = value, or start a comment with #

error: this is not TOML: unquoted keys cannot be empty, expected letters, numbers, `-`, `_`
 --> gateway.toml:2:1
  |
2 | = 4
  | ^
  = help: see https://toml.io for how TOML is written

error: gateway.toml has 2 problems"#,
    );
}
