//! A `[[volume.node]]`: the address of a node, or the path of an extent that the gateway serves itself.

use std::path::PathBuf;

use super::address::{parse_node_address, tidy};
use super::gateway::Reader;
use super::limits::{NODE_SIZE, THREADS, THREADS_DEFAULT};
use super::quantity::{Count, Size};
use super::report::quoted;
use super::section::Section;
use super::types::{Engine, ExtentId, Mapping, NodeConfig, NodeSource};

/// Reads one node; `None` if it does not say where it is.
pub(super) fn read_node(section: &Section<'_>, reader: &mut Reader<'_>) -> Option<NodeConfig> {
    let size = section.quantity("size", &NODE_SIZE, &mut reader.findings).map(|Size(bytes)| bytes);
    let extent = read_extent(section, reader);
    let whole = |(source, size_bytes)| NodeConfig { source, size_bytes, extent };
    match (section.value("address"), section.value("path")) {
        (Some(_), None) => read_remote(section, size, reader).map(whole),
        (None, Some(_)) => read_local(section, size, reader).map(whole),
        (Some(_), Some((_, span))) => {
            reader.findings.add(
                &span,
                "this node has both an address and a path",
                "keep the address if the node runs elsewhere, or the path if the gateway serves the file itself",
            );
            None
        }
        (None, None) => {
            reader.findings.add(
                &section.span,
                "this node has neither an address nor a path",
                "write address = \"host:port\" below the header for a node that runs elsewhere, \
                 or path = \"file\" for a file that the gateway serves itself",
            );
            None
        }
    }
}

fn read_extent(section: &Section<'_>, reader: &mut Reader<'_>) -> Option<ExtentId> {
    let (text, span) = section.text("extent", &mut reader.findings)?;
    match text.parse::<ExtentId>() {
        Ok(extent) => {
            let message = || format!("two nodes have the extent {extent}");
            let help = "remove one of the two, or correct it: every node serves its own extent";
            reader.sources.claim(format!("extent {extent}"), &span, &mut reader.findings, message, help);
            Some(extent)
        }
        Err(why) => {
            let message = format!("`extent` is {}, which is not an extent identity", quoted(text));
            reader.findings.add(&span, message, why.to_string());
            None
        }
    }
}

/// Where it is and what size it must have.
type Source = (NodeSource, Option<u64>);

fn read_remote(section: &Section<'_>, size_bytes: Option<u64>, reader: &mut Reader<'_>) -> Option<Source> {
    for key in ["threads", "engine", "direct", "mapped"] {
        if let Some((_, span)) = section.value(key) {
            reader.findings.add(
                &span,
                format!("`{key}` does not apply to a node with an address"),
                format!("remove it here, and use --{key} where the node is started"),
            );
        }
    }
    let (text, span) = section.text("address", &mut reader.findings)?;
    match parse_node_address(text) {
        Ok(address) => {
            let message = || format!("two nodes have the address {}", quoted(&address));
            let help = "remove one of the two: every node serves one extent of one volume";
            // Host names are the same in capitals (RFC 4343).
            let thing = format!("address {}", address.to_ascii_lowercase());
            reader.sources.claim(thing, &span, &mut reader.findings, message, help);
            Some((NodeSource::Remote { address }, size_bytes))
        }
        Err(why) => {
            let message = format!("`address` is {}, which is not a node address", quoted(text));
            reader.findings.add(&span, message, why.to_string());
            None
        }
    }
}

fn read_local(section: &Section<'_>, size_bytes: Option<u64>, reader: &mut Reader<'_>) -> Option<Source> {
    let findings = &mut reader.findings;
    let threads = section.quantity("threads", &THREADS, findings).map_or(THREADS_DEFAULT, |Count(n)| n) as usize;
    let engines = [("threads", Engine::Threads), ("io_uring", Engine::IoUring)];
    let engine = section.choice("engine", &engines, findings).unwrap_or(Engine::Threads);
    let direct = section.flag("direct", findings).unwrap_or(false);
    let mappings = [("auto", Mapping::Auto), ("off", Mapping::Off)];
    let mapped = section.choice("mapped", &mappings, findings).unwrap_or_default();
    let path = read_path(section, reader)?;
    if !section.has("size") && !(reader.exists)(&path) {
        let (_, span) = section.value("path")?;
        reader.findings.add(
            &span,
            format!("file {} does not exist, and no size is given to create it", quoted(&path.to_string_lossy())),
            "add a line such as size = \"10GiB\" below the path, or correct the path",
        );
    }
    Some((NodeSource::Local { path, threads, engine, direct, mapped }, size_bytes))
}

fn read_path(section: &Section<'_>, reader: &mut Reader<'_>) -> Option<PathBuf> {
    let (text, span) = section.text("path", &mut reader.findings)?;
    let help = if text.starts_with('~') {
        "write the full path: only a shell expands ~"
    } else if text.is_empty() || text.contains('\0') || text.ends_with('/') {
        "write the path of a file or block device; a relative path starts at the folder of this configuration"
    } else {
        let path = tidy(&reader.base_dir.join(text));
        let message = || format!("two nodes have the path {}", quoted(text));
        let help = "remove one of the two: every node serves its own file";
        reader.sources.claim(format!("path {}", path.display()), &span, &mut reader.findings, message, help);
        return Some(path);
    };
    reader.findings.add(&span, format!("`path` is {}, which is not a file path", quoted(text)), help);
    None
}
