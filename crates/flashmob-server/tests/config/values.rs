//! Values that are not what their keys want: what is said about each, word for word.

use crate::check;

#[test]
fn every_value_of_a_wrong_type_is_reported_in_one_run() {
    check(
        r#"connections = "64"
memory = true
name = 7
[[volume]]
name = "pool"
layout = 3
read_only = "no"
batch = "100"
batch_bytes = "1 megabyte"
links = 1.5
timeout = 1.5
connect_timeout = "10 seconds"
[[volume.node]]
address = ["a"]
size = -1
"#,
        r#"error: `connections` must be a number, not text
 --> gateway.toml:1:15
  |
1 | connections = "64"
  |               ^^^^
  = help: write 64, without quotes

error: `memory` must be a size, not true or false
 --> gateway.toml:2:10
  |
2 | memory = true
  |          ^^^^
  = help: write one, such as "512B", "64KiB" or "10GiB"

error: `name` must be text, not a whole number
 --> gateway.toml:3:8
  |
3 | name = 7
  |        ^
  = help: write it in quotes: name = "..."

error: `layout` must be text, not a whole number
 --> gateway.toml:6:10
  |
6 | layout = 3
  |          ^
  = help: write it in quotes: layout = "..."

error: `read_only` must be true or false, not text
 --> gateway.toml:7:13
  |
7 | read_only = "no"
  |             ^^^^
  = help: write true or false, without quotes

error: `batch` must be "auto" or a whole number, not '100'
 --> gateway.toml:8:9
  |
8 | batch = "100"
  |         ^^^^^
  = help: write batch = "auto", or a number from 1 to 4096 without quotes

error: `batch_bytes` must be a size, not '1 megabyte'
 --> gateway.toml:9:15
  |
9 | batch_bytes = "1 megabyte"
  |               ^^^^^^^^^^^^
  = help: write a number and a unit, such as "512B", "64KiB" or "10GiB"

error: `links` must be a whole number, not a number with a fraction
  --> gateway.toml:10:9
   |
10 | links = 1.5
   |         ^^^
   = help: write one, such as 4

error: `timeout` must be a length of time, not a number with a fraction
  --> gateway.toml:11:11
   |
11 | timeout = 1.5
   |           ^^^
   = help: write one, such as "500ms", "10s", "2m" or "1h"

error: `connect_timeout` must be a length of time, not '10 seconds'
  --> gateway.toml:12:19
   |
12 | connect_timeout = "10 seconds"
   |                   ^^^^^^^^^^^^
   = help: write a number and a unit, such as "500ms", "10s", "2m" or "1h"

error: `address` must be text, not a list
  --> gateway.toml:14:11
   |
14 | address = ["a"]
   |           ^^^^^
   = help: write it in quotes: address = "..."

error: `size` is '-1', which is negative
  --> gateway.toml:15:8
   |
15 | size = -1
   |        ^^
   = help: write a number and a unit in quotes, such as "512B", "64KiB" or "10GiB"

error: gateway.toml has 12 problems"#,
    );
}

#[test]
fn numbers_outside_their_limits_are_refused_with_the_limits() {
    check(
        r#"connections = -4
memory = "16MiB"
[[volume]]
name = "pool"
links = 65
timeout = "2h"
[[volume.node]]
address = "a"
size = "99999999TiB"
"#,
        r#"error: `connections` is '-4', which is negative
 --> gateway.toml:1:15
  |
1 | connections = -4
  |               ^^
  = help: write a whole number, such as 4

error: `memory` must be between "40MiB" and "1TiB", not "16MiB"
 --> gateway.toml:2:10
  |
2 | memory = "16MiB"
  |          ^^^^^^^
  = help: write a value from "40MiB" to "1TiB": one request may have 32 MiB, and must fit with its overhead

error: `links` must be between 1 and 64, not 65
 --> gateway.toml:5:9
  |
5 | links = 65
  |         ^^
  = help: write a value from 1 to 64: every link is a TCP connection of the node

error: `timeout` must be between "100ms" and "1h", not "2h"
 --> gateway.toml:6:11
  |
6 | timeout = "2h"
  |           ^^^^
  = help: write a value from "100ms" to "1h": Wi-Fi alone can pause for tens of milliseconds

error: `size` is '99999999TiB', which is more than 8 EiB
 --> gateway.toml:9:8
  |
9 | size = "99999999TiB"
  |        ^^^^^^^^^^^^^
  = help: write a number and a unit, such as "512B", "64KiB" or "10GiB"

error: gateway.toml has 5 problems"#,
    );
}

#[test]
fn a_number_beyond_64_bits_is_refused() {
    check(
        r#"[[volume]]
name = "pool"
links = 99999999999999999999
[[volume.node]]
address = "tablet"
"#,
        r#"error: `links` is '99999999999999999999', which is more than any limit
 --> gateway.toml:3:9
  |
3 | links = 99999999999999999999
  |         ^^^^^^^^^^^^^^^^^^^^
  = help: write a whole number, such as 4"#,
    );
}

#[test]
fn a_batch_outside_its_limits_or_no_number_is_refused() {
    check(
        r#"[[volume]]
name = "pool"
batch = 4097
[[volume.node]]
address = "tablet"
[[volume]]
name = "spare"
batch = [1, 2]
[[volume.node]]
address = "b"
"#,
        r#"error: `batch` must be between 1 and 4096, not 4097
 --> gateway.toml:3:9
  |
3 | batch = 4097
  |         ^^^^
  = help: write a value from 1 to 4096: a batch is one frame, and a frame holds at most 4096 requests

error: `batch` must be "auto" or a whole number, not a list
 --> gateway.toml:8:9
  |
8 | batch = [1, 2]
  |         ^^^^^^
  = help: write batch = "auto", or a number from 1 to 4096 without quotes

error: gateway.toml has 2 problems"#,
    );
}

#[test]
fn an_unknown_choice_is_refused_with_the_choices() {
    check(
        r#"[[volume]]
name = "pool"
layout = "stripped"
[[volume.node]]
path = "a"
engine = "uring"
"#,
        r#"error: `layout` must be "linear", "striped" or "mapped", not 'stripped'
 --> gateway.toml:3:10
  |
3 | layout = "stripped"
  |          ^^^^^^^^^^
  = help: write "linear", "striped" or "mapped"

error: `engine` must be "threads" or "io_uring", not 'uring'
 --> gateway.toml:6:10
  |
6 | engine = "uring"
  |          ^^^^^^^
  = help: write "threads" or "io_uring"

error: gateway.toml has 2 problems"#,
    );
}

#[test]
fn a_stripe_of_odd_size_is_refused() {
    check(
        r#"[[volume]]
name = "pool"
layout = "striped"
stripe = "65kB"
[[volume.node]]
address = "tablet"
"#,
        r#"error: `stripe` must be a power of two, not "65000B"
 --> gateway.toml:4:10
  |
4 | stripe = "65kB"
  |          ^^^^^^
  = help: write a power of two, such as "64KiB": this avoids a division per request, and keeps direct I/O aligned"#,
    );
}

#[test]
fn addresses_and_paths_that_are_none_are_told_what_to_write() {
    check(
        r#"listen = ["localhost:10809", "127.0.0.1:99999", "unix:"]
admin = "0.0.0.0.0:1"
[[volume]]
name = "pool"
[[volume.node]]
address = "http://tablet:7411"
[[volume.node]]
address = "fe80::1"
[[volume.node]]
path = "~/a.bin"
[[volume.node]]
path = ""
"#,
        r#"error: `listen` has 'localhost:10809', which is not an address to listen on
 --> gateway.toml:1:11
  |
1 | listen = ["localhost:10809", "127.0.0.1:99999", "unix:"]
  |           ^^^^^^^^^^^^^^^^^
  = help: write the IP address to listen on: 127.0.0.1 for this machine only, 0.0.0.0 for whoever can reach it

error: `listen` has '127.0.0.1:99999', which is not an address to listen on
 --> gateway.toml:1:30
  |
1 | listen = ["localhost:10809", "127.0.0.1:99999", "unix:"]
  |                              ^^^^^^^^^^^^^^^^^
  = help: a port is a number from 1 to 65535

error: `listen` has 'unix:', which is not an address to listen on
 --> gateway.toml:1:49
  |
1 | listen = ["localhost:10809", "127.0.0.1:99999", "unix:"]
  |                                                 ^^^^^^^
  = help: write a path of 1 to 107 bytes after unix:, the folder of this file included if it is relative

error: `admin` is '0.0.0.0.0:1', which is not an address to listen on
 --> gateway.toml:2:9
  |
2 | admin = "0.0.0.0.0:1"
  |         ^^^^^^^^^^^^^
  = help: an IPv4 address is four numbers from 0 to 255, such as 192.168.1.11

error: `address` is 'http://tablet:7411', which is not a node address
 --> gateway.toml:6:11
  |
6 | address = "http://tablet:7411"
  |           ^^^^^^^^^^^^^^^^^^^^
  = help: must be a host name of letters, digits, dots and hyphens, or an IP address; no scheme and no path

error: `address` is 'fe80::1', which is not a node address
 --> gateway.toml:8:11
  |
8 | address = "fe80::1"
  |           ^^^^^^^^^
  = help: write an IPv6 address in brackets, such as [fd00::11]:7411

error: `path` is '~/a.bin', which is not a file path
  --> gateway.toml:10:8
   |
10 | path = "~/a.bin"
   |        ^^^^^^^^^
   = help: write the full path: only a shell expands ~

error: `path` is '', which is not a file path
  --> gateway.toml:12:8
   |
12 | path = ""
   |        ^^
   = help: write the path of a file or block device; a relative path starts at the folder of this configuration

error: gateway.toml has 8 problems"#,
    );
}

#[test]
fn listen_must_be_text_or_a_list_of_text() {
    check(
        r#"listen = 10809
[[volume]]
name = "pool"
[[volume.node]]
address = "tablet"
"#,
        r#"error: `listen` must be text or a list of texts, not a whole number
 --> gateway.toml:1:10
  |
1 | listen = 10809
  |          ^^^^^
  = help: write them in quotes: listen = ["127.0.0.1:10809", "unix:/run/flashmob/nbd.sock"]"#,
    );
}

#[test]
fn a_list_of_listeners_holds_text_only() {
    check(
        r#"listen = ["127.0.0.1", 10809]
[[volume]]
name = "pool"
[[volume.node]]
address = "tablet"
"#,
        r#"error: `listen` must be text or a list of texts, not a whole number
 --> gateway.toml:1:24
  |
1 | listen = ["127.0.0.1", 10809]
  |                        ^^^^^
  = help: write them in quotes: listen = ["127.0.0.1:10809", "unix:/run/flashmob/nbd.sock"]"#,
    );
}

#[test]
fn an_empty_list_of_listeners_is_refused() {
    check(
        r#"listen = []
[[volume]]
name = "pool"
[[volume.node]]
address = "tablet"
"#,
        r#"error: `listen` is empty, so no client can connect
 --> gateway.toml:1:10
  |
1 | listen = []
  |          ^^
  = help: write at least one address, or remove the line for 127.0.0.1:10809"#,
    );
}

#[test]
fn one_address_is_listened_on_once() {
    check(
        r#"listen = ["127.0.0.1", "127.0.0.1:10809"]
admin = "127.0.0.1:10809"
[[volume]]
name = "pool"
[[volume.node]]
address = "tablet"
"#,
        r#"error: '127.0.0.1:10809' is given twice in `listen`
 --> gateway.toml:1:24
  |
1 | listen = ["127.0.0.1", "127.0.0.1:10809"]
  |                        ^^^^^^^^^^^^^^^^^
  = help: remove one of the two
  = note: the first is on line 1

error: `admin` is '127.0.0.1:10809', which is already used for NBD
 --> gateway.toml:2:9
  |
2 | admin = "127.0.0.1:10809"
  |         ^^^^^^^^^^^^^^^^^
  = help: use another port, such as 10810

error: gateway.toml has 2 problems"#,
    );
}

#[test]
fn socket_options_that_the_kernel_does_not_know_are_refused() {
    check(
        r#"[[volume]]
name = "pool"
[volume.socket]
keepalive = "1500ms"
congestion = "BBR"
[[volume.node]]
address = "tablet"
"#,
        r#"error: `keepalive` must be whole seconds, not "1500ms"
 --> gateway.toml:4:13
  |
4 | keepalive = "1500ms"
  |             ^^^^^^^^
  = help: write whole seconds, such as "10s": the kernel's unit is a second

error: `congestion` must be a congestion control, not 'BBR'
 --> gateway.toml:5:14
  |
5 | congestion = "BBR"
  |              ^^^^^
  = help: write one that /proc/sys/net/ipv4/tcp_available_congestion_control lists, such as "bbr" or "cubic"

error: gateway.toml has 2 problems"#,
    );
}

#[test]
fn text_that_cannot_be_shown_is_refused_and_shown_harmless() {
    check(
        r#"name = ""
[[volume]]
name = " pool"
id = "a\u001b[31m"
description = "left \u202e right"
[[volume.node]]
address = "tablet"
"#,
        r#"error: `name` is empty
 --> gateway.toml:1:8
  |
1 | name = ""
  |        ^^
  = help: write 1 to 255 bytes of printable text, without spaces around it

error: `name` is ' pool', which starts or ends with a space
 --> gateway.toml:3:8
  |
3 | name = " pool"
  |        ^^^^^^^
  = help: write 1 to 255 bytes of printable text, without spaces around it

error: `id` is 'a\u{1b}[31m', with a character that cannot be printed
 --> gateway.toml:4:6
  |
4 | id = "a\u001b[31m"
  |      ^^^^^^^^^^^^^
  = help: write 1 to 255 bytes of printable text, without spaces around it

error: `description` is 'left \u{202e} right', with a character that cannot be printed
 --> gateway.toml:5:15
  |
5 | description = "left \u202e right"
  |               ^^^^^^^^^^^^^^^^^^^
  = help: write 1 to 4096 bytes of printable text, without spaces around it

error: gateway.toml has 4 problems"#,
    );
}

#[test]
fn a_long_value_is_shown_in_part() {
    check(
        "[[volume]]\nname = \"pool\"\n[[volume.node]]\n\taddress = \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"\n",
        r#"error: `address` is 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...', which is not a node address
 --> gateway.toml:4:12
  |
4 |     address = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...
  |               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = help: must be a host name of letters, digits, dots and hyphens, or an IP address; no scheme and no path"#,
    );
}

#[test]
fn a_caret_far_to_the_right_stays_in_sight() {
    check(
        r#"volume = [{ name = "pool", node = [{ address = "tablet-1" }, { address = "tablet-2" }, { address = "tablet-3" }, { address = "tablet 4" }, { address = "tablet-5" }] }]
"#,
        r#"error: `address` is 'tablet 4', which is not a node address
 --> gateway.toml:1:126
  |
1 | ...s = "tablet-3" }, { address = "tablet 4" }, { address = "tablet-5" }] }]
  |                                  ^^^^^^^^^^
  = help: must be a host name of letters, digits, dots and hyphens, or an IP address; no scheme and no path"#,
    );
}

#[test]
fn a_value_over_several_lines_is_shown_by_its_first() {
    check(
        r#"[[volume]]
name = "pool"
id = """
"""
[[volume.node]]
address = "tablet"
"#,
        r#"error: `id` is empty
 --> gateway.toml:3:6
  |
3 | id = """
  |      ^^^
  = help: write 1 to 255 bytes of printable text, without spaces around it"#,
    );
}

#[test]
fn a_host_of_the_admin_port_is_a_name_alone() {
    check(
        r#"admin_hosts = ["gateway.example.org", "http://gateway:9100/"]
[[volume]]
name = "pool"
[[volume.node]]
address = "tablet"
"#,
        r#"error: `admin_hosts` has 'http://gateway:9100/', which is not the name of a host
 --> gateway.toml:1:39
  |
1 | admin_hosts = ["gateway.example.org", "http://gateway:9100/"]
  |                                       ^^^^^^^^^^^^^^^^^^^^^^
  = help: write the name alone, such as gateway.example.org, without a port"#,
    );
}
