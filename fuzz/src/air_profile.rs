//! Modelled airs: any text gives one whose name gives it again and over which every frame has one fate, or is refused
//! with something to say.

use flashmob_core::units::Time;
use flashmob_lab::air::{Air, Attachment, Frame, Port, Profile};

/// Few and far apart, so that slow airs with many retries are soon done.
const FRAMES: u64 = 12;
const PORTS: [Attachment; 4] = [Attachment::Wired, Attachment::Wireless, Attachment::Wireless, Attachment::Wireless];

/// Parses the input as the text of a profile, and sends a few frames over it.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let profile = match Profile::parse(&text) {
        Ok(profile) => profile,
        Err(error) => {
            let message = error.to_string();
            assert!(message.contains("must be") || message.contains("air"), "{message:?}");
            assert!(!message.contains(char::is_control), "{message:?}");
            return;
        }
    };
    assert_eq!(Profile::parse(&profile.name).as_ref(), Ok(&profile), "the name gives another one");
    assert!(profile.frames_per_access(1514) >= 1);
    let mut air = Air::new(&profile, &PORTS, data.len() as u64);
    for id in 0..FRAMES {
        let (from, to) = (Port(id as u32 % 4), (id % 5 != 0).then_some(Port((id as u32 + 1) % 4)));
        air.submit(Time(id * 50_000), Frame { id, from, to, len_bytes: 150 * id as u32 });
    }
    let (mut outcomes, mut last) = (Vec::new(), Time(0));
    while let Some(at) = air.next_event() {
        assert!(at >= last, "time ran backwards");
        last = at;
        air.advance(at, &mut outcomes);
    }
    for id in 0..FRAMES {
        let expected = if id % 5 == 0 { PORTS.len() - 1 } else { 1 };
        assert_eq!(outcomes.iter().filter(|o| o.id == id).count(), expected, "frame {id} over {}", profile.name);
    }
}
