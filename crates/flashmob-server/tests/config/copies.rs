//! Volumes with copies: each limit at, below and above itself, and what is said word for word.

use flashmob_server::config::CopiesConfig;

use crate::{check, parse, refusal};

/// A mapped volume over nodes of 1 GiB; `lines` go into the volume.
fn mapped(lines: &str, nodes: usize) -> String {
    let nodes: String =
        (0..nodes).map(|n| format!("[[volume.node]]\naddress = \"node-{n}\"\nsize = \"1GiB\"\n")).collect();
    format!("[[volume]]\nname = \"pool\"\nlayout = \"mapped\"\n{lines}\n{nodes}")
}

fn copies_of(text: &str) -> CopiesConfig {
    parse(text).expect("a configuration").volumes[0].copies.expect("copies")
}

#[test]
fn there_are_1_to_4_copies() {
    for copies in 1..=4 {
        assert_eq!(copies_of(&mapped(&format!("copies = {copies}"), 4)).copies, copies);
    }
    for copies in [0, 5] {
        check(
            &mapped(&format!("copies = {copies}"), 5),
            &format!(
                "\
error: `copies` must be between 1 and 4, not {copies}
 --> gateway.toml:4:10
  |
4 | copies = {copies}
  |          ^
  = help: write a value from 1 to 4: each copy takes its share of the air"
            ),
        );
    }
}

#[test]
fn a_new_volume_may_be_smaller_than_its_nodes() {
    assert_eq!(copies_of(&mapped("copies = 2", 2)).size_bytes, None);
    for (size, bytes) in [("4MiB", 4 << 20), ("60GiB", 60 << 30), ("64TiB", 64 << 40)] {
        assert_eq!(copies_of(&mapped(&format!("copies = 2\nsize = \"{size}\""), 2)).size_bytes, Some(bytes));
    }
    check(
        &mapped("copies = 2\nsize = \"6MiB\"", 2),
        "\
error: `size` is \"6MiB\", which is not a multiple of \"4MiB\"
 --> gateway.toml:5:8
  |
5 | size = \"6MiB\"
  |        ^^^^^^
  = help: write a multiple of \"4MiB\"",
    );
    for size in ["4095KiB", "65537GiB"] {
        let text = refusal(&mapped(&format!("copies = 2\nsize = \"{size}\""), 2));
        assert!(text.contains("`size` must be between \"4MiB\" and \"64TiB\""), "{text}");
    }
}

#[test]
fn a_mapped_volume_says_how_many_copies_it_has() {
    check(
        &mapped("min_current = 4", 4),
        "\
error: the volume is mapped, but does not say how many copies it has
 --> gateway.toml:3:10
  |
3 | layout = \"mapped\"
  |          ^^^^^^^^
  = help: write copies = 2: each chunk then lies on two nodes",
    );
}

#[test]
fn from_1_to_all_copies_may_have_to_be_current() {
    for copies in 1..=4 {
        for min_current in 1..=copies {
            let config = copies_of(&mapped(&format!("copies = {copies}\nmin_current = {min_current}"), 4));
            assert_eq!(config.min_current, min_current);
        }
    }
    check(
        &mapped("copies = 2\nmin_current = 0", 4),
        "\
error: `min_current` must be between 1 and 4, not 0
 --> gateway.toml:5:15
  |
5 | min_current = 0
  |               ^
  = help: write a value from 1 to 4: no more than `copies`",
    );
    check(
        &mapped("copies = 2\nmin_current = 3", 4),
        "\
error: `min_current` is 3, more than `copies`, which is 2
 --> gateway.toml:5:15
  |
5 | min_current = 3
  |               ^
  = help: write at most the number of `copies`",
    );
    let message = refusal(&mapped("copies = 4\nmin_current = 5", 4));
    assert!(message.starts_with("error: `min_current` must be between 1 and 4, not 5\n"), "{message}");
    // A wrong number of copies is one problem.
    let message = refusal(&mapped("copies = 9\nmin_current = 4", 4));
    assert!(!message.contains("problems"), "{message}");
}

#[test]
fn nodes_are_put_out_after_half_a_second_to_ten_minutes() {
    for evict_after in ["500ms", "10m"] {
        let lines = format!("copies = 2\ntimeout = \"1h\"\nevict_after = \"{evict_after}\"");
        assert!(parse(&mapped(&lines, 2)).is_ok(), "{evict_after}");
    }
    for evict_after in ["499ms", "600001ms"] {
        check(
            &mapped(&format!("copies = 2\nevict_after = \"{evict_after}\""), 2),
            &format!(
                "\
error: `evict_after` must be between \"500ms\" and \"10m\", not \"{evict_after}\"
 --> gateway.toml:5:15
  |
5 | evict_after = \"{evict_after}\"
  |               {}
  = help: write a value from \"500ms\" to \"10m\": a node that dozes or roams is away for seconds",
                "^".repeat(evict_after.len() + 2)
            ),
        );
    }
}

#[test]
fn scrubs_are_an_hour_to_a_year_apart_or_off() {
    for key in ["scrub", "compare"] {
        for every in ["1h", "366d", "8784h", "off", "90m"] {
            let lines = format!("copies = 2\n{key} = \"{every}\"");
            assert!(parse(&mapped(&lines, 2)).is_ok(), "{key} = {every}");
        }
        for (every, said) in
            [("59m", "\"59m\""), ("3599999ms", "\"3599999ms\""), ("8785h", "\"8785h\""), ("367d", "\"367d\"")]
        {
            let message = refusal(&mapped(&format!("copies = 2\n{key} = \"{every}\""), 2));
            let wanted = format!("error: `{key}` must be between \"1h\" and \"366d\", not {said}\n");
            assert!(message.starts_with(&wanted), "{message}");
        }
        let message = refusal(&mapped(&format!("copies = 2\n{key} = \"never\""), 2));
        assert!(message.starts_with(&format!("error: `{key}` must be a length of time, not 'never'\n")), "{message}");
    }
}

#[test]
fn requests_wait_longer_than_a_node_may_be_silent() {
    let volume = |evict_after, timeout| {
        mapped(&format!("copies = 2\nevict_after = \"{evict_after}\"\ntimeout = \"{timeout}\""), 2)
    };
    assert!(parse(&volume("2s", "4s")).is_ok());
    for timeout in ["3999ms", "2s"] {
        let message = refusal(&volume("2s", timeout));
        let wanted = format!(
            "error: `evict_after` is \"2s\", more than half of `timeout`, which is \"{timeout}\"\n --> gateway.toml:5:15"
        );
        assert!(message.starts_with(&wanted), "{message}");
    }
    // Its default is 3 s.
    assert!(parse(&mapped("copies = 2\ntimeout = \"6s\"", 2)).is_ok());
    let message = refusal(&mapped("copies = 2\ntimeout = \"5s\"", 2));
    assert!(
        message.starts_with(
            "error: `evict_after` is \"3s\", more than half of `timeout`, which is \"5s\"\n --> gateway.toml:5:11"
        ),
        "{message}"
    );
    assert!(parse(&mapped("copies = 1\ntimeout = \"2s\"", 2)).is_ok(), "nobody is put out");
    // A wrong one is one problem.
    assert!(!refusal(&volume("1ms", "2s")).contains("problems"));
}

#[test]
fn copies_need_as_many_nodes() {
    for copies in 1..=4 {
        assert!(parse(&mapped(&format!("copies = {copies}"), copies)).is_ok());
        assert!(parse(&mapped(&format!("copies = {copies}"), copies + 1)).is_ok());
    }
    check(
        &mapped("copies = 3", 2),
        "\
error: 3 copies need 3 nodes or domains, and there are 2
 --> gateway.toml:4:10
  |
4 | copies = 3
  |          ^
  = help: add nodes, correct `domain`, or write fewer copies",
    );
}

#[test]
fn nodes_of_one_domain_count_once() {
    let text = |copies: usize, domain: &str| {
        mapped(&format!("copies = {copies}"), 3).replace("\"1GiB\"\n", &format!("\"1GiB\"\ndomain = \"{domain}\"\n"))
    };
    assert!(parse(&text(1, "shelf")).is_ok());
    let message = refusal(&text(2, "shelf"));
    assert!(message.starts_with("error: 2 copies need 2 nodes or domains, and there is 1\n"), "{message}");
}

#[test]
fn a_domain_has_1_to_64_bytes() {
    let text = |len: usize| mapped("copies = 1", 1) + &format!("domain = \"{}\"\n", "d".repeat(len));
    for len in [1, 64] {
        assert!(parse(&text(len)).is_ok(), "{len}");
    }
    assert!(refusal(&text(0)).starts_with("error: `domain` is empty\n"), "{}", refusal(&text(0)));
    check(
        &text(65),
        &format!(
            "\
error: `domain` has 65 bytes, more than 64
 --> gateway.toml:8:10
  |
8 | domain = \"{}\"
  |          {}
  = help: write 1 to 64 bytes of printable text, without spaces around it",
            "d".repeat(65),
            "^".repeat(67)
        ),
    );
}

#[test]
fn a_node_has_at_least_one_chunk() {
    let text = |size: &str| mapped("copies = 1", 1).replace("1GiB", size);
    // What exceeds whole chunks is not used.
    for size in ["4MiB", "4194305B", "8388607B", "1024TiB"] {
        assert!(parse(&text(size)).is_ok(), "{size}");
    }
    check(
        &text("4194303B"),
        "\
error: `size` is \"4194303B\", less than one chunk of a mapped volume
 --> gateway.toml:7:8
  |
7 | size = \"4194303B\"
  |        ^^^^^^^^^^
  = help: write at least \"4MiB\"",
    );
    assert!(!refusal(&text("0B")).contains("problems"), "{}", refusal(&text("0B")));
    check(
        &mapped("copies = 1", 1).replace("size = \"1GiB\"\n", ""),
        "\
error: this node has no `size`, and the volume is mapped
 --> gateway.toml:5:1
  |
5 | [[volume.node]]
  | ^^^^^^^^^^^^^^^
  = help: write size = \"10GiB\" or what it has below the header: the map is made from the sizes",
    );
}

#[test]
fn other_layouts_have_no_copies() {
    for layout in ["", "layout = \"linear\"", "layout = \"striped\""] {
        let text = mapped("copies = 2\nmin_current = 1\nevict_after = \"3s\"\nscrub = \"off\"\ncompare = \"30d\"", 2)
            .replace("layout = \"mapped\"", layout);
        check(
            &(text + "domain = \"shelf\"\n"),
            r#"error: `copies` is set, but the volume has no copies
 --> gateway.toml:4:10
  |
4 | copies = 2
  |          ^
  = help: write layout = "mapped" as well, or remove this line

error: `min_current` is set, but the volume has no copies
 --> gateway.toml:5:15
  |
5 | min_current = 1
  |               ^
  = help: write layout = "mapped" as well, or remove this line

error: `evict_after` is set, but the volume has no copies
 --> gateway.toml:6:15
  |
6 | evict_after = "3s"
  |               ^^^^
  = help: write layout = "mapped" as well, or remove this line

error: `scrub` is set, but the volume has no copies
 --> gateway.toml:7:9
  |
7 | scrub = "off"
  |         ^^^^^
  = help: write layout = "mapped" as well, or remove this line

error: `compare` is set, but the volume has no copies
 --> gateway.toml:8:11
  |
8 | compare = "30d"
  |           ^^^^^
  = help: write layout = "mapped" as well, or remove this line

error: `domain` is set, but the volume has no copies
  --> gateway.toml:15:10
   |
15 | domain = "shelf"
   |          ^^^^^^^
   = help: write layout = "mapped" and copies = 2 below [[volume]] for copies, or remove this line

error: gateway.toml has 6 problems"#,
        );
    }
}

#[test]
fn a_misspelt_layout_is_one_problem() {
    let text = mapped("copies = 2", 2).replace("\"mapped\"", "\"maped\"") + "domain = \"shelf\"\n";
    check(
        &text,
        r#"error: `layout` must be "linear", "striped" or "mapped", not 'maped'
 --> gateway.toml:3:10
  |
3 | layout = "maped"
  |          ^^^^^^^
  = help: write "linear", "striped" or "mapped""#,
    );
}

#[test]
fn a_mapped_volume_has_no_stripe() {
    check(
        &mapped("copies = 2\nstripe = \"64KiB\"", 2),
        "\
error: `stripe` is set, but the volume is mapped
 --> gateway.toml:5:10
  |
5 | stripe = \"64KiB\"
  |          ^^^^^^^
  = help: remove this line",
    );
}
