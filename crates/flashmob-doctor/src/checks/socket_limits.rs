//! What a program may set as the size of a socket's buffer.
//!
//! A limit that is below what an untouched socket grows to is ordinary: kernels allow 208 KiB, and only programs that set a size are bound
//! by it. Below what kernels have allowed for twenty years it is somebody's doing, and a program that asks for more gets less than one that
//! does not ask.

use flashmob_path::buffers::Buffer;

use super::{Finding, sysctl};
use crate::view::View;
use crate::{bytes, rate, time};

/// The smallest that kernels had by themselves, on machines of any size: 128 KiB, less the byte that some left out.
const LIMIT_BYTES_MIN: u64 = (128 << 10) - 1;
/// What today's kernels have by themselves.
const LIMIT_BYTES_DEFAULT: u64 = 212_992;

pub(super) fn look(view: &View) -> Finding {
    let both = [Buffer::Receive, Buffer::Send].map(|buffer| {
        let name = buffer.limit_name();
        (name, view.sysctl(name).and_then(|text| text.parse::<u64>().ok()))
    });
    let mut said = Vec::new();
    let mut low = Vec::new();
    for (name, limit) in both {
        match limit {
            Some(limit) => said.push(format!("{name} is {}", bytes(limit))),
            None => {
                return Finding::unknown(format!("{name} cannot be read here, as in network namespaces of their own"));
            }
        }
        low.extend(limit.filter(|&limit| limit < LIMIT_BYTES_MIN).map(|limit| (name, limit)));
    }
    let found = said.join(", ");
    let Some(least) = low.iter().map(|(_, limit)| *limit).min() else {
        return Finding::well(format!("programs may set their buffers: {found}"));
    };
    let target = &view.target;
    let cost = format!(
        "a program that sets the size of its buffers gets at most {} over a round trip of {}, less than one that sets none",
        rate(target.cap_bits_per_second(least)),
        time(target.rtt_s)
    );
    let wanted = LIMIT_BYTES_DEFAULT.max(target.window_bytes().min(1 << 30));
    let finding = Finding::wrong(format!("what programs may set is less than kernels allow: {found}"), cost);
    low.iter().fold(finding, |finding, (name, _)| finding.with_change(sysctl(name, wanted.to_string())))
}
