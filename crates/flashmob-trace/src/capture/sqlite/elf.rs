//! File offsets of functions; the kernel's probes take offsets, not addresses.

use std::fs::File;

use object::{Object, ObjectSegment, ObjectSymbol, ReadCache, SymbolKind};

/// The functions of `names` that the file defines, each once, with its file offset.
pub fn functions<'n>(file: &File, names: &[&'n str]) -> Result<Vec<(&'n str, u64)>, String> {
    let cache = ReadCache::new(file);
    let elf = object::File::parse(&cache).map_err(|error| format!("it is no program or library: {error}"))?;
    let mut found: Vec<(&str, u64)> = Vec::new();
    for symbol in elf.dynamic_symbols().chain(elf.symbols()) {
        if symbol.kind() != SymbolKind::Text || symbol.is_undefined() {
            continue;
        }
        let Some(name) = symbol.name().ok().and_then(|name| names.iter().find(|wanted| **wanted == name)) else {
            continue;
        };
        if !found.iter().any(|(known, _)| known == name)
            && let Some(offset) = offset(&elf, symbol.address())
        {
            found.push((name, offset));
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn offset<'d>(elf: &impl Object<'d>, address: u64) -> Option<u64> {
    elf.segments().find_map(|segment| {
        let within = address.checked_sub(segment.address())?;
        let (begin, bytes) = segment.file_range();
        (within < bytes).then(|| begin.checked_add(within)).flatten()
    })
}
