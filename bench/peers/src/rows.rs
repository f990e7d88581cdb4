//! The rows: who is measured with what, in the order in which a round goes through them. What is compared with
//! one another stands together, so that a slow minute of the machine hits all of it.

use serde::Serialize;

use crate::servers::{Build, Server, Set};

/// What stands in one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    #[serde(rename = "4k-1x64")]
    Blocks1,
    #[serde(rename = "4k-4x64")]
    Blocks4,
    #[serde(rename = "512-4x64")]
    Small4,
    #[serde(rename = "1b-4x64")]
    Bytes4,
    Latency,
    Writes,
    Sequential,
    Fairness,
    Copies,
}

impl Group {
    /// The heading of its table.
    pub fn title(self) -> &'static str {
        match self {
            Group::Blocks1 => "Random reads of 4 KiB, 1 connection, 64 outstanding",
            Group::Blocks4 => "Random reads of 4 KiB, 4 connections, 64 outstanding each",
            Group::Small4 => "Random reads of 512 B, 4 connections, 64 outstanding each",
            Group::Bytes4 => "Random reads of 1 B, 4 connections, 64 outstanding each",
            Group::Latency => "Latency: 4 KiB, one read outstanding",
            Group::Writes => "Random writes of 4 KiB into the page cache, 4 connections, 64 outstanding each, two hops",
            Group::Sequential => "Sequential reads of 1 MiB, 1 connection, 16 outstanding, two hops",
            Group::Fairness => "Fairness: one client at one outstanding, alone and beside a greedy one at 1,024",
            Group::Copies => "Copies: random reads and writes of 4 KiB, 4 connections, 64 outstanding each, two hops",
        }
    }

    /// The first part of its rows' names.
    pub fn key(self) -> &'static str {
        match self {
            Group::Blocks1 => "4k-1x64",
            Group::Blocks4 => "4k-4x64",
            Group::Small4 => "512-4x64",
            Group::Bytes4 => "1b-4x64",
            Group::Latency => "latency",
            Group::Writes => "writes",
            Group::Sequential => "sequential",
            Group::Fairness => "fairness",
            Group::Copies => "copies",
        }
    }
}

/// What a row is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// flashmob.
    Ours,
    /// What a user would take instead.
    Peer,
    /// Something else to hold on to: the limit of the machine, another kind of server.
    Anchor,
    /// The same servers, asked by another client.
    CrossCheck,
}

/// How far the client is from the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Path {
    /// A system call.
    None,
    OneHop,
    TwoHops,
    /// A gateway inside the client, then the nodes.
    Native,
}

/// A load over NBD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub connections: u32,
    pub outstanding: u32,
    pub block_bytes: u32,
    pub sequential: bool,
    pub write: bool,
}

/// How a row is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Two threads that read the file.
    Pread {
        block_bytes: u32,
    },
    Nbd {
        server: Server,
        shape: Shape,
    },
    Fio {
        server: Server,
        shape: Shape,
    },
    /// So many reads a call; how many calls are outstanding is found out.
    Native {
        server: Server,
        spans: usize,
        block_bytes: u32,
    },
    /// Pipelines of 100; over how many connections is found out.
    Redis {
        block_bytes: u32,
    },
    Iperf,
    /// The bytes of a read of 4 KiB through a bare relay.
    PingPong,
    /// One outstanding read of 4 KiB, beside a client with so many if not 0.
    Beside {
        server: Server,
        greedy: u32,
    },
}

/// A row.
#[derive(Clone, Debug)]
pub struct Row {
    /// `GROUP/WHO`, unique.
    pub id: String,
    pub group: Group,
    pub class: Class,
    pub path: Path,
    pub kind: Kind,
    pub name: String,
}

impl Row {
    /// The server that it asks.
    pub fn server(&self) -> Option<Server> {
        match self.kind {
            Kind::Pread { .. } | Kind::PingPong => None,
            Kind::Nbd { server, .. }
            | Kind::Fio { server, .. }
            | Kind::Native { server, .. }
            | Kind::Beside { server, .. } => Some(server),
            Kind::Redis { .. } => Some(Server::Redis),
            Kind::Iperf => Some(Server::Iperf),
        }
    }
}

const READS: Set = Set::Reads;
const ONE: Server = Server::FlashmobOne(Build::A);
const TWO: Server = Server::FlashmobTwo(Build::A, READS);

/// The servers of one hop.
const ONE_HOP: [Server; 6] =
    [ONE, Server::NbdkitFile, Server::NbdkitMemory, Server::NbdServer, Server::QemuNbd, Server::QemuStorage];
/// Those of two.
const TWO_HOPS: [Server; 3] = [TWO, Server::RelayNbdkit(READS), Server::RelayQemu(READS)];

/// Numbers of copies that are measured; 0 for a linear volume of the same size.
const COPIES: [u8; 4] = [0, 1, 2, 3];

/// The short name of a server in a row's id.
fn key(server: Server) -> String {
    match server {
        Server::FlashmobOne(Build::A) => "flashmob-one".into(),
        Server::FlashmobTwo(Build::A, _) => "flashmob-two".into(),
        Server::FlashmobOne(Build::B) => "against-one".into(),
        Server::FlashmobTwo(Build::B, _) => "against-two".into(),
        Server::FlashmobCopies(copies, Set::Reads) => format!("flashmob-reads-{copies}"),
        Server::FlashmobCopies(copies, Set::Writes) => format!("flashmob-writes-{copies}"),
        Server::NbdkitFile => "nbdkit-file".into(),
        Server::NbdkitMemory => "nbdkit-memory".into(),
        Server::NbdServer => "nbd-server".into(),
        Server::QemuNbd => "qemu-nbd".into(),
        Server::QemuStorage => "qemu-storage-daemon".into(),
        Server::RelayNbdkit(_) => "relay-nbdkit".into(),
        Server::RelayQemu(_) => "relay-qemu".into(),
        Server::EightNbdkit => "eight-nbdkit".into(),
        Server::Nbdfuse => "nbdfuse-split".into(),
        Server::Redis => "redis".into(),
        Server::Iperf => "iperf3".into(),
    }
}

struct Rows {
    rows: Vec<Row>,
    against: bool,
}

impl Rows {
    fn add(&mut self, group: Group, class: Class, path: Path, id: &str, name: &str, kind: Kind) {
        self.rows.push(Row { id: format!("{}/{id}", group.key()), group, class, path, kind, name: name.to_string() });
    }

    /// A server, and beside one of ours the other build's.
    fn nbd(&mut self, group: Group, path: Path, server: Server, shape: Shape) {
        let (ours, other) = match server {
            Server::FlashmobOne(Build::A) => (true, Some(Server::FlashmobOne(Build::B))),
            Server::FlashmobTwo(Build::A, set) => (true, Some(Server::FlashmobTwo(Build::B, set))),
            Server::FlashmobCopies(..) => (true, None),
            _ => (false, None),
        };
        let class = match server {
            // Nobody gets one volume out of this: the client does the gateway's work.
            Server::EightNbdkit => Class::Anchor,
            _ if ours => Class::Ours,
            _ => Class::Peer,
        };
        self.add(group, class, path, &key(server), server.name(), Kind::Nbd { server, shape });
        if let Some(other) = other.filter(|_| self.against) {
            self.add(group, class, path, &key(other), other.name(), Kind::Nbd { server: other, shape });
        }
    }

    fn pread(&mut self, group: Group, block_bytes: u32) {
        self.add(group, Class::Anchor, Path::None, "pread", "bare pread loop, 2 threads", Kind::Pread { block_bytes });
    }

    fn fio(&mut self, group: Group, path: Path, server: Server, shape: Shape) {
        let (id, name) = (format!("fio-{}", key(server)), format!("{}, asked by fio", server.name()));
        self.add(group, Class::CrossCheck, path, &id, &name, Kind::Fio { server, shape });
    }

    fn native(&mut self, group: Group, id: &str, spans: usize, block_bytes: u32) {
        let name = format!("flashmob, native client, {spans} a call");
        self.add(group, Class::Ours, Path::Native, id, &name, Kind::Native { server: TWO, spans, block_bytes });
    }
}

fn shape(connections: u32, outstanding: u32, block_bytes: u32) -> Shape {
    Shape { connections, outstanding, block_bytes, sequential: false, write: false }
}

/// All rows; with `against`, those of the other build of flashmob as well.
pub fn all(against: bool) -> Vec<Row> {
    let mut rows = Rows { rows: Vec::new(), against };
    let (blocks1, blocks4, small4, bytes4) =
        (shape(1, 64, 4096), shape(4, 64, 4096), shape(4, 64, 512), shape(4, 64, 1));

    rows.pread(Group::Blocks1, 4096);
    for server in ONE_HOP {
        rows.nbd(Group::Blocks1, Path::OneHop, server, blocks1);
    }
    for server in TWO_HOPS {
        rows.nbd(Group::Blocks1, Path::TwoHops, server, blocks1);
    }
    rows.fio(Group::Blocks1, Path::OneHop, ONE, blocks1);
    rows.fio(Group::Blocks1, Path::OneHop, Server::NbdkitFile, blocks1);

    rows.pread(Group::Blocks4, 4096);
    for server in ONE_HOP {
        rows.nbd(Group::Blocks4, Path::OneHop, server, blocks4);
    }
    for server in TWO_HOPS {
        rows.nbd(Group::Blocks4, Path::TwoHops, server, blocks4);
    }
    rows.nbd(Group::Blocks4, Path::TwoHops, Server::Nbdfuse, blocks4);
    rows.nbd(Group::Blocks4, Path::OneHop, Server::EightNbdkit, shape(8, 64, 4096));
    rows.native(Group::Blocks4, "native-100", 100, 4096);
    rows.add(
        Group::Blocks4,
        Class::Anchor,
        Path::OneHop,
        "redis-get",
        "redis GET, pipelines of 100",
        Kind::Redis { block_bytes: 4096 },
    );
    rows.fio(Group::Blocks4, Path::OneHop, ONE, blocks4);
    rows.fio(Group::Blocks4, Path::OneHop, Server::NbdkitFile, blocks4);
    rows.fio(Group::Blocks4, Path::TwoHops, TWO, blocks4);
    rows.fio(Group::Blocks4, Path::TwoHops, Server::RelayNbdkit(READS), blocks4);

    rows.pread(Group::Small4, 512);
    for server in ONE_HOP {
        rows.nbd(Group::Small4, Path::OneHop, server, small4);
    }

    rows.pread(Group::Bytes4, 1);
    for server in ONE_HOP {
        rows.nbd(Group::Bytes4, Path::OneHop, server, bytes4);
    }
    for server in TWO_HOPS {
        rows.nbd(Group::Bytes4, Path::TwoHops, server, bytes4);
    }
    rows.nbd(Group::Bytes4, Path::TwoHops, Server::Nbdfuse, bytes4);
    rows.nbd(Group::Bytes4, Path::OneHop, Server::EightNbdkit, shape(8, 64, 1));
    rows.native(Group::Bytes4, "native-100", 100, 1);
    rows.native(Group::Bytes4, "native-1000", 1000, 1);
    rows.add(
        Group::Bytes4,
        Class::Anchor,
        Path::OneHop,
        "redis-getrange",
        "redis GETRANGE, pipelines of 100",
        Kind::Redis { block_bytes: 1 },
    );

    let single = shape(1, 1, 4096);
    for server in [ONE, Server::NbdkitFile] {
        rows.nbd(Group::Latency, Path::OneHop, server, single);
    }
    for server in TWO_HOPS {
        rows.nbd(Group::Latency, Path::TwoHops, server, single);
    }
    let name = "ping-pong of the same bytes through a bare relay that polls";
    rows.add(Group::Latency, Class::Anchor, Path::TwoHops, "ping-pong", name, Kind::PingPong);

    let writes = Shape { write: true, ..blocks4 };
    for server in
        [Server::FlashmobTwo(Build::A, Set::Writes), Server::RelayNbdkit(Set::Writes), Server::RelayQemu(Set::Writes)]
    {
        rows.nbd(Group::Writes, Path::TwoHops, server, writes);
    }

    let sequential = Shape { sequential: true, ..shape(1, 16, 1 << 20) };
    rows.add(Group::Sequential, Class::Anchor, Path::None, "iperf3", "iperf3 over loopback, one stream", Kind::Iperf);
    for server in TWO_HOPS {
        rows.nbd(Group::Sequential, Path::TwoHops, server, sequential);
    }

    for (server, class, path) in [
        (ONE, Class::Ours, Path::OneHop),
        (TWO, Class::Ours, Path::TwoHops),
        (Server::NbdkitFile, Class::Peer, Path::OneHop),
    ] {
        for (greedy, how) in [(0, "alone"), (1024, "beside")] {
            let (id, name) = (format!("{}-{how}", key(server)), format!("{}, {how}", server.name()));
            rows.add(Group::Fairness, class, path, &id, &name, Kind::Beside { server, greedy });
        }
    }

    for (set, shape) in [(READS, blocks4), (Set::Writes, writes)] {
        for copies in COPIES {
            rows.nbd(Group::Copies, Path::TwoHops, Server::FlashmobCopies(copies, set), shape);
        }
    }
    rows.rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_name_of_its_own() {
        let rows = all(true);
        let ids: std::collections::BTreeSet<&str> = rows.iter().map(|row| row.id.as_str()).collect();
        assert_eq!(ids.len(), rows.len());
        assert!(rows.len() > all(false).len());
    }

    #[test]
    fn what_is_compared_stands_together() {
        let rows = all(true);
        let mut groups: Vec<Group> = rows.iter().map(|row| row.group).collect();
        groups.dedup();
        let mut sorted = groups.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(groups, sorted, "no group is interrupted by another");
    }
}
