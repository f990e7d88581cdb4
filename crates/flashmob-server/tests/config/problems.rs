//! Keys, sections, and things that must not occur twice: what is said about each, word for word.

use crate::{check, parse};

#[test]
fn an_empty_file_has_no_volume() {
    check(
        r#""#,
        r#"error: the configuration has no volume
 --> gateway.toml
  = help: add one: a line [[volume]] with a name = "..." below it, then a line [[volume.node]] with an address = "host:port" below it, once for each node"#,
    );
}

#[test]
fn an_empty_list_is_no_volume() {
    check(
        r#"volume = []
"#,
        r#"error: the configuration has no volume
 --> gateway.toml
  = help: add one: a line [[volume]] with a name = "..." below it, then a line [[volume.node]] with an address = "host:port" below it, once for each node"#,
    );
}

#[test]
fn a_misspelt_key_gets_a_suggestion_and_the_list_of_keys() {
    check(
        r#"[[volume]]
name = "pool"
lnks = 4
[[volume.node]]
address = "tablet"
"#,
        r#"error: unknown key `lnks` in [[volume]]
 --> gateway.toml:3:1
  |
3 | lnks = 4
  | ^^^^
  = help: did you mean `links`?
  = note: the keys are name, id, description, layout, stripe, copies, size, min_current, evict_after, scrub, compare, read_only, batch, batch_bytes, links, outstanding_batches, timeout, connect_timeout, reconnect_min, reconnect_max, keep_awake, socket and node"#,
    );
}

#[test]
fn hyphens_and_capitals_are_slips_too() {
    check(
        r#"Listen = "127.0.0.1"
[[volume]]
name = "pool"
Batch-Bytes = "1MiB"
[[volume.node]]
address = "tablet"
"#,
        r#"error: unknown key `Listen` in the top part of the file
 --> gateway.toml:1:1
  |
1 | Listen = "127.0.0.1"
  | ^^^^^^
  = help: did you mean `listen`?
  = note: the keys are listen, admin, admin_hosts, keys, connections, busy_poll_us, trace_one_in, memory, congestion, name, etcd and volume

error: unknown key `Batch-Bytes` in [[volume]]
 --> gateway.toml:4:1
  |
4 | Batch-Bytes = "1MiB"
  | ^^^^^^^^^^^
  = help: did you mean `batch_bytes`?
  = note: the keys are name, id, description, layout, stripe, copies, size, min_current, evict_after, scrub, compare, read_only, batch, batch_bytes, links, outstanding_batches, timeout, connect_timeout, reconnect_min, reconnect_max, keep_awake, socket and node

error: gateway.toml has 2 problems"#,
    );
}

#[test]
fn a_key_that_resembles_none_gets_the_list_of_keys() {
    check(
        r#"[[volume]]
name = "pool"
[[volume.node]]
address = "tablet"
colour = "red"
"#,
        r#"error: unknown key `colour` in [[volume.node]]
 --> gateway.toml:5:1
  |
5 | colour = "red"
  | ^^^^^^
  = help: remove it, or comment it out with #
  = note: the keys are address, path, size, domain, extent, threads, engine, direct and mapped"#,
    );
}

#[test]
fn a_key_in_the_wrong_section_is_told_where_it_belongs() {
    check(
        r#"timeout = "10s"
[[volume]]
name = "pool"
admin = "127.0.0.1:1"
[[volume.node]]
address = "tablet"
name = "left"
"#,
        r#"error: unknown key `timeout` in the top part of the file
 --> gateway.toml:1:1
  |
1 | timeout = "10s"
  | ^^^^^^^
  = help: `timeout` belongs in [[volume]]: move the line there
  = note: the keys are listen, admin, admin_hosts, keys, connections, busy_poll_us, trace_one_in, memory, congestion, name, etcd and volume

error: unknown key `admin` in [[volume]]
 --> gateway.toml:4:1
  |
4 | admin = "127.0.0.1:1"
  | ^^^^^
  = help: `admin` belongs in the top part of the file: move the line there
  = note: the keys are name, id, description, layout, stripe, copies, size, min_current, evict_after, scrub, compare, read_only, batch, batch_bytes, links, outstanding_batches, timeout, connect_timeout, reconnect_min, reconnect_max, keep_awake, socket and node

error: unknown key `name` in [[volume.node]]
 --> gateway.toml:7:1
  |
7 | name = "left"
  | ^^^^
  = help: `name` belongs in the top part of the file or [[volume]]: move the line there
  = note: the keys are address, path, size, domain, extent, threads, engine, direct and mapped

error: gateway.toml has 3 problems"#,
    );
}

#[test]
fn a_node_outside_a_volume_is_told_its_header() {
    check(
        r#"[[volume]]
name = "pool"
[[node]]
address = "tablet"
"#,
        r#"error: this volume has no nodes
 --> gateway.toml:1:1
  |
1 | [[volume]]
  | ^^^^^^^^^^
  = help: write a header [[volume.node]] below it for each node, with an address or a path

error: unknown key `node` in the top part of the file
 --> gateway.toml:3:3
  |
3 | [[node]]
  |   ^^^^
  = help: write the header as [[volume.node]], below the volume that it belongs to
  = note: the keys are listen, admin, admin_hosts, keys, connections, busy_poll_us, trace_one_in, memory, congestion, name, etcd and volume

error: gateway.toml has 2 problems"#,
    );
}

#[test]
fn a_volume_in_single_brackets_is_told_about_double_ones() {
    check(
        r#"[volume]
name = "pool"
"#,
        r#"error: `volume` is a single section, but must be a list of sections
 --> gateway.toml:1:1
  |
1 | [volume]
  | ^^^^^^^^
  = help: write the header of each with double brackets, [[volume]]"#,
    );
}

#[test]
fn a_socket_in_double_brackets_is_told_about_single_ones() {
    check(
        r#"[[volume]]
name = "pool"
[[volume.socket]]
congestion = "bbr"
[[volume.node]]
address = "tablet"
"#,
        r#"error: `socket` is a list of sections, but must be a single section
 --> gateway.toml:3:1
  |
3 | [[volume.socket]]
  | ^^^^^^^^^^^^^^^^^
  = help: write the header with single brackets, [volume.socket]"#,
    );
}

#[test]
fn a_value_where_a_section_belongs_is_refused() {
    check(
        r#"volume = "pool"
"#,
        r#"error: `volume` must be a list of sections, not text
 --> gateway.toml:1:10
  |
1 | volume = "pool"
  |          ^^^^^^
  = help: write the header of each with double brackets, [[volume]]"#,
    );
}

#[test]
fn a_value_among_sections_is_refused() {
    check(
        r#"volume = [{ name = "pool", node = [{ address = "tablet" }] }, 3]
"#,
        r#"error: `volume` must be a list of sections, not a whole number
 --> gateway.toml:1:63
  |
1 | volume = [{ name = "pool", node = [{ address = "tablet" }] }, 3]
  |                                                               ^
  = help: write the header of each with double brackets, [[volume]]"#,
    );
}

#[test]
fn a_value_where_the_socket_belongs_is_refused() {
    check(
        r#"[[volume]]
name = "pool"
socket = "bbr"
[[volume.node]]
address = "tablet"
"#,
        r#"error: `socket` must be a section, not text
 --> gateway.toml:3:10
  |
3 | socket = "bbr"
  |          ^^^^^
  = help: write the header with single brackets, [volume.socket]"#,
    );
}

#[test]
fn a_volume_needs_a_name_and_nodes() {
    check(
        r#"[[volume]]
"#,
        r#"error: this volume has no name
 --> gateway.toml:1:1
  |
1 | [[volume]]
  | ^^^^^^^^^^
  = help: write name = "..." below the header; NBD clients select the volume by this name

error: this volume has no nodes
 --> gateway.toml:1:1
  |
1 | [[volume]]
  | ^^^^^^^^^^
  = help: write a header [[volume.node]] below it for each node, with an address or a path

error: gateway.toml has 2 problems"#,
    );
}

#[test]
fn an_empty_list_of_nodes_is_none() {
    check(
        r#"[[volume]]
name = "pool"
node = []
"#,
        r#"error: this volume has no nodes
 --> gateway.toml:1:1
  |
1 | [[volume]]
  | ^^^^^^^^^^
  = help: write a header [[volume.node]] below it for each node, with an address or a path"#,
    );
}

#[test]
fn two_volumes_of_one_name_are_refused() {
    check(
        r#"[[volume]]
name = "pool"
[[volume.node]]
address = "a"
[[volume]]
name = "pool"
[[volume.node]]
address = "b"
"#,
        r#"error: two volumes are named 'pool'
 --> gateway.toml:6:8
  |
6 | name = "pool"
  |        ^^^^^^
  = help: give each volume its own name
  = note: the first is on line 2"#,
    );
}

#[test]
fn a_name_that_is_the_id_of_another_volume_is_refused() {
    check(
        r#"[[volume]]
name = "pool"
id = "spare"
[[volume.node]]
address = "a"
[[volume]]
name = "spare"
[[volume.node]]
address = "b"
"#,
        r#"error: two volumes have the id 'spare'
 --> gateway.toml:7:8
  |
7 | name = "spare"
  |        ^^^^^^^
  = help: give each volume its own id: nodes record the volume they belong to by this id
  = note: the first is on line 3"#,
    );
}

#[test]
fn two_nodes_of_one_address_are_refused_however_it_is_written() {
    check(
        r#"[[volume]]
name = "pool"
[[volume.node]]
address = "tablet"
[[volume.node]]
address = "Tablet:7411"
"#,
        r#"error: two nodes have the address 'Tablet:7411'
 --> gateway.toml:6:11
  |
6 | address = "Tablet:7411"
  |           ^^^^^^^^^^^^^
  = help: remove one of the two: every node serves one extent of one volume
  = note: the first is on line 4"#,
    );
}

#[test]
fn two_nodes_of_one_path_are_refused_across_volumes() {
    check(
        r#"[[volume]]
name = "pool"
[[volume.node]]
path = "a.bin"
[[volume]]
name = "spare"
[[volume.node]]
path = "/etc/flashmob/./a.bin"
"#,
        r#"error: two nodes have the path '/etc/flashmob/./a.bin'
 --> gateway.toml:8:8
  |
8 | path = "/etc/flashmob/./a.bin"
  |        ^^^^^^^^^^^^^^^^^^^^^^^
  = help: remove one of the two: every node serves its own file
  = note: the first is on line 4"#,
    );
}

#[test]
fn a_node_has_exactly_one_of_address_and_path() {
    check(
        r#"[[volume]]
name = "pool"
[[volume.node]]
address = "a"
path = "b"
[[volume.node]]
size = "1GiB"
"#,
        r#"error: this node has both an address and a path
 --> gateway.toml:5:8
  |
5 | path = "b"
  |        ^^^
  = help: keep the address if the node runs elsewhere, or the path if the gateway serves the file itself

error: this node has neither an address nor a path
 --> gateway.toml:6:1
  |
6 | [[volume.node]]
  | ^^^^^^^^^^^^^^^
  = help: write address = "host:port" below the header for a node that runs elsewhere, or path = "file" for a file that the gateway serves itself

error: gateway.toml has 2 problems"#,
    );
}

#[test]
fn keys_of_a_local_node_are_refused_for_a_remote_one() {
    check(
        r#"[[volume]]
name = "pool"
[[volume.node]]
address = "tablet"
threads = 4
engine = "threads"
direct = false
mapped = "off"
"#,
        r#"error: `threads` does not apply to a node with an address
 --> gateway.toml:5:11
  |
5 | threads = 4
  |           ^
  = help: remove it here, and use --threads where the node is started

error: `engine` does not apply to a node with an address
 --> gateway.toml:6:10
  |
6 | engine = "threads"
  |          ^^^^^^^^^
  = help: remove it here, and use --engine where the node is started

error: `direct` does not apply to a node with an address
 --> gateway.toml:7:10
  |
7 | direct = false
  |          ^^^^^
  = help: remove it here, and use --direct where the node is started

error: `mapped` does not apply to a node with an address
 --> gateway.toml:8:10
  |
8 | mapped = "off"
  |          ^^^^^
  = help: remove it here, and use --mapped where the node is started

error: gateway.toml has 4 problems"#,
    );
}

#[test]
fn stripe_is_refused_for_a_linear_volume() {
    check(
        r#"[[volume]]
name = "pool"
stripe = "64KiB"
[[volume.node]]
address = "tablet"
"#,
        r#"error: `stripe` is set, but the volume is linear
 --> gateway.toml:3:10
  |
3 | stripe = "64KiB"
  |          ^^^^^^^
  = help: write layout = "striped" as well, or remove this line"#,
    );
}

#[test]
fn a_longest_pause_below_the_first_is_refused() {
    check(
        r#"[[volume]]
name = "pool"
reconnect_max = "10ms"
[[volume.node]]
address = "tablet"
"#,
        r#"error: `reconnect_min` is "50ms", longer than `reconnect_max`, which is "10ms"
 --> gateway.toml:3:17
  |
3 | reconnect_max = "10ms"
  |                 ^^^^^^
  = help: write both, the shorter one as reconnect_min"#,
    );
}

#[test]
fn a_first_pause_above_the_default_of_the_longest_is_refused() {
    check(
        r#"[[volume]]
name = "pool"
reconnect_min = "5s"
[[volume.node]]
address = "tablet"
"#,
        r#"error: `reconnect_min` is "5s", longer than `reconnect_max`, which is "2s"
 --> gateway.toml:3:17
  |
3 | reconnect_min = "5s"
  |                 ^^^^
  = help: write both, the shorter one as reconnect_min"#,
    );
}

#[test]
fn an_extent_is_32_digits_and_belongs_to_one_node() {
    check(
        r#"[[volume]]
name = "pool"
[[volume.node]]
address = "a"
extent = "abc"
[[volume.node]]
address = "b"
extent = "000102030405060708090a0b0c0d0e0f"
[[volume.node]]
address = "c"
extent = "000102030405060708090A0B0C0D0E0F"
"#,
        r#"error: `extent` is 'abc', which is not an extent identity
 --> gateway.toml:5:10
  |
5 | extent = "abc"
  |          ^^^^^
  = help: an extent's identity is 32 hexadecimal digits; its node logs it at startup and stores it in its .flashmob file

error: two nodes have the extent 000102030405060708090a0b0c0d0e0f
  --> gateway.toml:11:10
   |
11 | extent = "000102030405060708090A0B0C0D0E0F"
   |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   = help: remove one of the two, or correct it: every node serves its own extent
   = note: the first is on line 8

error: gateway.toml has 2 problems"#,
    );
}

#[test]
fn two_volumes_whose_maps_would_be_one_file_are_refused() {
    let two = |first: &str, second: &str, layout: &str| {
        let volume = |id: &str, number: u8| {
            format!(
                "[[volume]]\nname = \"{id}\"\n{layout}[[volume.node]]\naddress = \"192.0.2.{number}\"\nsize = \"1GiB\"\n"
            )
        };
        volume(first, 1) + &volume(second, 2)
    };
    let mapped = "layout = \"mapped\"\ncopies = 1\n";
    check(
        &two("a/b", "a_b", mapped),
        r#"error: two volumes would have one map, in CONFIG.toml.a_b.map
 --> gateway.toml:9:8
  |
9 | name = "a_b"
  |        ^^^^^
  = help: give one of them another id: in names of files, all but letters, digits, '-', '_' and '.' becomes '_', and 100 characters count
  = note: the first is on line 2"#,
    );
    let accepts = |text: &str| parse(text).is_ok();
    let long = |end: &str, count: usize| "x".repeat(count) + end;
    assert!(accepts(&two(&long("a", 99), &long("b", 99), mapped)));
    assert!(!accepts(&two(&long("a", 100), &long("b", 100), mapped)));
    assert!(accepts(&two("a/b", "a_b", "")), "other volumes have no map");
}
