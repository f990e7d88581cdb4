//! Whether the peer answers.

use super::Finding;
use crate::path::Answer;
use crate::time;
use crate::view::View;

pub(super) fn look(view: &View) -> Finding {
    let Some(path) = &view.path else {
        return Finding::not_applicable("no peer was named").with_advice("name one with --peer HOST[:PORT]");
    };
    let (peer, port) = (&path.peer, path.address.port());
    let rtt = path.rtt_s.map(|seconds| format!(" within {}", time(seconds))).unwrap_or_default();
    match &path.answer {
        Answer::Open => Finding::well(format!("{peer} answers{rtt}")),
        Answer::Refused if path.is_port_named => {
            Finding::wrong(format!("{peer} is there, and refuses port {port}{rtt}"), "nothing listens there")
                .with_advice("start the program that should listen, or name another port")
        }
        Answer::Refused => Finding::well(format!("{peer} is there, and refuses port {port}{rtt}")),
        Answer::Silent(waited) => {
            let found = format!("{peer} says nothing at port {port} within {}", time(waited.as_secs_f64()));
            Finding::severe(found, "no connection can be made")
                .with_advice("a firewall drops what is sent to that port, or no device has that address")
        }
        Answer::Failed(why) => Finding::severe(format!("{peer} cannot be reached: {why}"), "no connection can be made")
            .with_advice("see which way leads there: ip route get ADDRESS"),
    }
}
