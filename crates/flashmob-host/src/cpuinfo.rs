//! `/proc/cpuinfo`, whose form differs with the architecture and the kernel's age.

/// Implementer and part number of ARM cores, with the core's name: those in old tablets, phones and boards.
const PARTS: [(u32, u32, &str); 41] = [
    (0x41, 0xb76, "ARM1176"),
    (0x41, 0xc05, "Cortex-A5"),
    (0x41, 0xc07, "Cortex-A7"),
    (0x41, 0xc08, "Cortex-A8"),
    (0x41, 0xc09, "Cortex-A9"),
    (0x41, 0xc0d, "Cortex-A17"),
    (0x41, 0xc0e, "Cortex-A17"),
    (0x41, 0xc0f, "Cortex-A15"),
    (0x41, 0xd01, "Cortex-A32"),
    (0x41, 0xd03, "Cortex-A53"),
    (0x41, 0xd04, "Cortex-A35"),
    (0x41, 0xd05, "Cortex-A55"),
    (0x41, 0xd07, "Cortex-A57"),
    (0x41, 0xd08, "Cortex-A72"),
    (0x41, 0xd09, "Cortex-A73"),
    (0x41, 0xd0a, "Cortex-A75"),
    (0x41, 0xd0b, "Cortex-A76"),
    (0x41, 0xd0c, "Neoverse N1"),
    (0x41, 0xd0d, "Cortex-A77"),
    (0x41, 0xd40, "Neoverse V1"),
    (0x41, 0xd41, "Cortex-A78"),
    (0x41, 0xd44, "Cortex-X1"),
    (0x41, 0xd46, "Cortex-A510"),
    (0x41, 0xd47, "Cortex-A710"),
    (0x41, 0xd48, "Cortex-X2"),
    (0x41, 0xd49, "Neoverse N2"),
    (0x41, 0xd4d, "Cortex-A715"),
    (0x41, 0xd4e, "Cortex-X3"),
    (0x41, 0xd80, "Cortex-A520"),
    (0x41, 0xd81, "Cortex-A720"),
    (0x41, 0xd82, "Cortex-X4"),
    (0x4e, 0x000, "Denver"),
    (0x4e, 0x003, "Denver 2"),
    (0x51, 0x00f, "Scorpion"),
    (0x51, 0x02d, "Scorpion"),
    (0x51, 0x04d, "Krait"),
    (0x51, 0x06f, "Krait"),
    (0x51, 0x201, "Kryo"),
    (0x51, 0x205, "Kryo"),
    (0x51, 0x211, "Kryo"),
    (0x53, 0x001, "Exynos M1"),
];

/// The processor's name. On ARM the chip, if the kernel reports it, and its kinds of cores: `grouper, Cortex-A9`.
pub(super) fn cpu_name(cpuinfo: &str) -> Option<String> {
    let value = |key: &str| fields(cpuinfo).find(|(name, _)| *name == key).map(|(_, value)| value);
    // 32-bit ARM calls every processor "ARMv7 Processor rev 3 (v7l)", which identifies nothing.
    let is_telling = |name: &&str| !name.starts_with("ARMv") && !name.starts_with("AArch64 Processor");
    if let Some(name) = value("model name").or(value("cpu model")).or(value("uarch")).filter(is_telling) {
        return Some(name.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    let known: Vec<String> = [value("Hardware").map(str::to_string), cores(cpuinfo)].into_iter().flatten().collect();
    if known.is_empty() {
        return value("Processor").or(value("model name")).map(str::to_string);
    }
    Some(known.join(", "))
}

/// `key : value` of each line, where there is a value.
fn fields(cpuinfo: &str) -> impl Iterator<Item = (&str, &str)> {
    cpuinfo
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(key, value)| (key.trim(), value.trim()))
        .filter(|(_, value)| !value.is_empty())
}

/// The kinds of cores by implementer and part, each once, in the order in which they are listed.
fn cores(cpuinfo: &str) -> Option<String> {
    let mut implementer = None;
    let mut kinds: Vec<String> = Vec::new();
    for (key, value) in fields(cpuinfo) {
        let code = value.strip_prefix("0x").and_then(|digits| u32::from_str_radix(digits, 16).ok());
        match key {
            "CPU implementer" => implementer = code,
            "CPU part" => {
                let (Some(maker), Some(part)) = (implementer, code) else { continue };
                let known = PARTS.iter().find(|known| (known.0, known.1) == (maker, part));
                let kind = known.map_or_else(|| format!("core {maker:#04x}:{part:#05x}"), |known| known.2.to_string());
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
            _ => {}
        }
    }
    (!kinds.is_empty()).then(|| kinds.join(" + "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_architecture_has_its_own_words() {
        let x86 = "processor\t: 0\nmodel name\t: Intel(R) Core(TM)  i7-2700K\nflags\t\t: fpu\n";
        assert_eq!(cpu_name(x86).unwrap(), "Intel(R) Core(TM) i7-2700K");
        let nexus7 = "Processor\t: ARMv7 Processor rev 9 (v7l)\nprocessor\t: 0\n\nFeatures\t: swp\nCPU implementer\t: 0x41\n\
                      CPU part\t: 0xc09\n\nHardware\t: grouper\n";
        assert_eq!(cpu_name(nexus7).unwrap(), "grouper, Cortex-A9");
        let big_little = "CPU implementer: 0x41\nCPU part: 0xd03\n\nCPU implementer: 0x41\nCPU part: 0xd03\n\n\
                          CPU implementer: 0x51\nCPU part: 0x999\n";
        assert_eq!(cpu_name(big_little).unwrap(), "Cortex-A53 + core 0x51:0x999");
        assert_eq!(cpu_name("Processor : ARMv6-compatible\n").unwrap(), "ARMv6-compatible");
        assert_eq!(cpu_name("model name : ARMv7 Processor rev 3 (v7l)\n").unwrap(), "ARMv7 Processor rev 3 (v7l)");
        assert_eq!(cpu_name(""), None);
        assert_eq!(cpu_name("model name :\nCPU part : 0xd03\n"), None);
    }

    proptest! {
        #[test]
        fn anything_at_all_is_read_without_a_panic(
            lines in prop::collection::vec(("(model name|CPU implementer|CPU part|Hardware|Processor|\\PC{0,4})", "\\PC{0,12}|0x[0-9a-f]{0,10}"), 0..12)
        ) {
            let text: String = lines.iter().map(|(key, value)| format!("{key}\t: {value}\n")).collect();
            if let Some(name) = cpu_name(&text) {
                prop_assert!(!name.is_empty());
            }
        }
    }
}
