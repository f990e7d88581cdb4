//! Why a server refuses, as iperf3's numbers say it: a number of iperf3's own, and the system's.

/// A refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net) enum Failure {
    /// The parameters make no sense, or are beyond what is served.
    Parameters,
    /// The congestion control cannot be chosen.
    Congestion,
    /// The data connections could not be made.
    Streams,
}

impl Failure {
    /// Both numbers, as they are sent.
    pub fn numbers(self, errno: i32) -> [u8; 8] {
        let number: u32 = match self {
            Failure::Parameters => PARAMETERS,
            Failure::Congestion => CONGESTION,
            Failure::Streams => STREAMS,
        };
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        bytes[4..].copy_from_slice(&errno.to_be_bytes());
        bytes
    }
}

const PARAMETERS: u32 = 114;
const CONGESTION: u32 = 134;
const STREAMS: u32 = 202;

/// What a server's two numbers say, for people.
pub(in crate::net) fn words(number: u32, errno: u32) -> String {
    let what = match number {
        6 => "too many streams".to_string(),
        7 => "it does not take blocks of that size".to_string(),
        PARAMETERS => "it does not take these parameters; its log may say which".to_string(),
        CONGESTION => "it has no such congestion control, or may not choose it".to_string(),
        130 => "it cannot set such socket buffers".to_string(),
        STREAMS => "it could not make the data connections".to_string(),
        number => format!("iperf3's error {number}"),
    };
    match i32::try_from(errno) {
        Ok(errno @ 1..=4095) => format!("{what} ({})", std::io::Error::from_raw_os_error(errno)),
        _ => what,
    }
}
