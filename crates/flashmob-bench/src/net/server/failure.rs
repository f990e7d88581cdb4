//! Refusals of a server, as iperf3's error numbers.

/// A refusal, with iperf3's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(in crate::net) enum Failure {
    /// The test is longer than the server allows.
    TooLong = 5,
    /// The parameters are invalid, or beyond the limits.
    Parameters = 114,
    /// The congestion control cannot be chosen.
    Congestion = 134,
    /// The data connections could not be made.
    Streams = 202,
}

impl Failure {
    /// iperf3's number and the system's, as they are sent.
    pub fn numbers(self, errno: i32) -> Vec<u8> {
        [(self as u32).to_be_bytes(), errno.to_be_bytes()].concat()
    }
}

/// The meaning of a server's two numbers.
pub(in crate::net) fn words(number: u32, errno: u32) -> String {
    let too_long = Failure::TooLong as u32;
    let what = match number {
        // Newer iperf3 servers send 37 (--server-max-duration).
        n if n == too_long || n == 37 => {
            "the test is longer than it allows; ask for a shorter one, or raise its limit (flashmob: --longest)"
                .to_string()
        }
        6 => "too many streams".to_string(),
        7 => "it does not take blocks of that size".to_string(),
        n if n == Failure::Parameters as u32 => "it does not take these parameters; its log may say which".to_string(),
        n if n == Failure::Congestion as u32 => "it has no such congestion control, or may not choose it".to_string(),
        130 => "it cannot set such socket buffers".to_string(),
        n if n == Failure::Streams as u32 => "it could not make the data connections".to_string(),
        number => format!("iperf3's error {number}"),
    };
    match i32::try_from(errno) {
        Ok(errno @ 1..=4095) => format!("{what} ({})", std::io::Error::from_raw_os_error(errno)),
        _ => what,
    }
}
