//! A `[[volume.node]]`: the address of a node, or the path of an extent that the gateway serves itself.

use std::path::PathBuf;

use super::address::{parse_node_address, tidy};
use super::gateway::Reader;
use super::limits::{DOMAIN_BYTES_MAX, NODE_SIZE, THREADS};
use super::quantity::Size;
use super::report::quoted;
use super::section::Section;
use super::types::{Engine, ExtentId, LayoutKind, Mapping, NodeConfig, NodeSource};

/// Reads one node; `None` if it has no valid address or path. A `layout` of which nothing is known demands nothing.
pub(super) fn read_node(
    section: &Section<'_>,
    layout: Option<LayoutKind>,
    reader: &mut Reader<'_>,
) -> Option<NodeConfig> {
    let size_bytes = section.quantity("size", &NODE_SIZE).map(|Size(bytes)| bytes);
    let extent = read_extent(section, reader);
    let source = match (section.has("address"), section.has("path")) {
        (true, false) => read_remote(section, reader),
        (false, true) => read_local(section, reader),
        (true, true) => {
            section.wrong(
                "path",
                "this node has both an address and a path",
                "keep the address if the node runs elsewhere, or the path if the gateway serves the file itself",
            );
            None
        }
        (false, false) => {
            section.findings.add(
                &section.span,
                "this node has neither an address nor a path",
                "write address = \"host:port\" below the header for a node that runs elsewhere, \
                 or path = \"file\" for a file that the gateway serves itself",
            );
            None
        }
    };
    if let Some(layout) = layout {
        check_for_layout(section, layout, size_bytes);
    }
    let domain = section.printable("domain", DOMAIN_BYTES_MAX).map(|(text, _)| text.to_string());
    source.map(|source| NodeConfig { source, size_bytes, extent, domain, is_gone: false })
}

/// Reports what a node needs for a mapped layout, or has though its layout has no use for it.
fn check_for_layout(section: &Section<'_>, layout: LayoutKind, size_bytes: Option<u64>) {
    let LayoutKind::Mapped { chunk_bytes } = layout else {
        if section.has("domain") {
            let help = "write layout = \"mapped\" and copies = 2 below [[volume]] for copies, or remove this line";
            section.wrong("domain", "`domain` is set, but the volume has no copies", help);
        }
        return;
    };
    if !section.has("size") {
        let help = "write size = \"10GiB\" or what it has below the header: the map is made from the sizes";
        section.findings.add(&section.span, "this node has no `size`, and the volume is mapped", help);
    }
    if let Some(size_bytes) = size_bytes.filter(|&size_bytes| size_bytes < chunk_bytes) {
        let message = format!("`size` is {}, less than one chunk of a mapped volume", Size(size_bytes).to_toml());
        section.wrong("size", message, format!("write at least {}", Size(chunk_bytes).to_toml()));
    }
}

fn read_extent(section: &Section<'_>, reader: &mut Reader<'_>) -> Option<ExtentId> {
    let (text, span) = section.text("extent")?;
    match text.parse::<ExtentId>() {
        Ok(extent) => {
            let message = || format!("two nodes have the extent {extent}");
            let help = "remove one of the two, or correct it: every node serves its own extent";
            reader.sources.claim(format!("extent {extent}"), &span, section.findings, message, help);
            Some(extent)
        }
        Err(why) => {
            let message = format!("`extent` is {}, which is not an extent identity", quoted(text));
            section.wrong("extent", message, why.to_string());
            None
        }
    }
}

fn read_remote(section: &Section<'_>, reader: &mut Reader<'_>) -> Option<NodeSource> {
    for key in ["threads", "engine", "direct", "mapped"].into_iter().filter(|key| section.has(key)) {
        section.wrong(
            key,
            format!("`{key}` does not apply to a node with an address"),
            format!("remove it here, and use --{key} where the node is started"),
        );
    }
    let (text, span) = section.text("address")?;
    match parse_node_address(text) {
        Ok(address) => {
            let message = || format!("two nodes have the address {}", quoted(&address));
            let help = "remove one of the two: every node serves one extent of one volume";
            // Host names are case-insensitive (RFC 4343).
            let thing = format!("address {}", address.to_ascii_lowercase());
            reader.sources.claim(thing, &span, section.findings, message, help);
            Some(NodeSource::Remote { address })
        }
        Err(why) => {
            let message = format!("`address` is {}, which is not a node address", quoted(text));
            section.wrong("address", message, why.to_string());
            None
        }
    }
}

fn read_local(section: &Section<'_>, reader: &mut Reader<'_>) -> Option<NodeSource> {
    let threads = section.get("threads", &THREADS).0 as usize;
    let engines = [("threads", Engine::Threads), ("io_uring", Engine::IoUring)];
    let engine = section.choice("engine", &engines).unwrap_or_default();
    let direct = section.flag("direct");
    let mappings = [("auto", Mapping::Auto), ("on", Mapping::On), ("off", Mapping::Off)];
    let mapped = section.choice("mapped", &mappings).unwrap_or_default();
    let path = read_path(section, reader)?;
    if !section.has("size") && !(reader.exists)(&path) {
        section.wrong(
            "path",
            format!("file {} does not exist, and no size is given to create it", quoted(&path.to_string_lossy())),
            "add a line such as size = \"10GiB\" below the path, or correct the path",
        );
    }
    Some(NodeSource::Local { path, threads, engine, direct, mapped })
}

fn read_path(section: &Section<'_>, reader: &mut Reader<'_>) -> Option<PathBuf> {
    let (text, span) = section.text("path")?;
    let help = if text.starts_with('~') {
        "write the full path: only a shell expands ~"
    } else if text.is_empty() || text.contains('\0') || text.ends_with('/') {
        "write the path of a file or block device; a relative path starts at the folder of this configuration"
    } else {
        let path = tidy(&reader.base_dir.join(text));
        let message = || format!("two nodes have the path {}", quoted(text));
        let help = "remove one of the two: every node serves its own file";
        reader.sources.claim(format!("path {}", path.display()), &span, section.findings, message, help);
        return Some(path);
    };
    section.wrong("path", format!("`path` is {}, which is not a file path", quoted(text)), help);
    None
}
