//! Parsing of profiles, and the messages for invalid ones.

use proptest::prelude::*;

use super::*;

fn message(text: &str) -> String {
    Profile::parse(text).unwrap_err().to_string()
}

#[test]
fn all_names_give_profiles_capitals_and_underscores_forgiven() {
    assert_eq!(Profile::names(), ["11a", "11g", "11n-2014", "11n", "11ac", "11ax", "wan", "ideal"]);
    for name in Profile::names() {
        assert_eq!(profile(name).name, name);
        assert_eq!(profile(&name.to_uppercase().replace('-', "_")), profile(name));
        assert!(!profile(name).description.is_empty());
    }
}

#[test]
fn a_name_says_what_was_changed_in_one_order_and_only_that() {
    for (text, name) in [
        ("11n,loss=0.01", "11n,loss=1%"),
        ("11n, loss = 1.5% , ampdu = 16", "11n,ampdu=16,loss=1.5%"),
        ("11n,ampdu=64,loss=0,retries=7", "11n"),
        ("11N,cwmax=31,cwmin=31,queue=9,ap_queue=10", "11n,cwmin=31,cwmax=31,queue=9,ap-queue=10"),
        ("11a,rate=54mbit/s", "11a"),
        ("wan,delay=0.02s,rate=10000kbit,jitter=1500us", "wan,rate=10Mbit,delay=20ms,jitter=1500us"),
        ("wan,delay=0ms,loss=0.0001%", "wan,delay=0ns,loss=0.0001%"),
    ] {
        assert_eq!(profile(text).name, name);
        assert_eq!(profile(name), profile(text));
    }
}

#[test]
fn what_is_refused_names_what_and_what_would_do() {
    let names = "11a, 11g, 11n-2014, 11n, 11ac, 11ax, wan, ideal";
    let keys = "rate, ampdu, loss, retries, cwmin, cwmax, queue, ap-queue";
    for (text, expected) in [
        ("11x", format!("there is no modelled air '11x'; there are {names}; did you mean '11a'?")),
        ("wlan", format!("there is no modelled air 'wlan'; there are {names}; did you mean 'wan'?")),
        ("", format!("there is no modelled air ''; there are {names}")),
        ("11n,los=1%", format!("the air '11n' has no 'los'; what can be changed is {keys}; did you mean 'loss'?")),
        ("11n,delay=1ms", format!("the air '11n' has no 'delay'; what can be changed is {keys}")),
        ("ideal,loss=1%", "the air 'ideal' has no 'loss'; nothing of it can be changed".to_string()),
        ("11n,ampdu=65", "the air '11n' cannot have ampdu=65; ampdu must be 1 to 64".to_string()),
        ("11n,loss=2", "the air '11n' cannot have loss=2; loss must be 0% to 100%".to_string()),
        ("wan,rate=5", "the air 'wan' cannot have rate=5; rate must be 1kbit to 100Gbit".to_string()),
        ("wan,delay=1m", "the air 'wan' cannot have delay=1m; delay must be 0ns to 10s".to_string()),
        ("11n,cwmin=2000", "the air '11n' cannot have cwmin=2000; cwmin must be 0 to 1023, which is cwmax".to_string()),
        ("11n,cwmax=7", "the air '11n' cannot have cwmax=7; cwmax must be 15 to 32767, for cwmin is 15".to_string()),
        ("11n,loss", "'loss' changes nothing of the air '11n'; write KEY=VALUE, such as loss=1%".to_string()),
        ("11n,", "'' changes nothing of the air '11n'; write KEY=VALUE, such as loss=1%".to_string()),
        ("11n,queue=5,queue=5", "the air '11n' is given 'queue' twice; leave one out".to_string()),
    ] {
        assert_eq!(message(text), expected);
    }
}

#[test]
fn numbers_are_read_to_the_last_digit_or_not_at_all() {
    for (text, ppm) in
        [("0.5%", 5_000), ("0.000001", 1), ("100%", 1_000_000), ("1.0", 1_000_000), ("1.00000000", 1_000_000)]
    {
        assert_eq!(cell(&format!("11n,loss={text}")).loss_ppm, ppm, "{text}");
    }
    for text in
        ["0.0000001", "0.00001%", ".5", "5.", "1.2.3", "1e3", "NaN", "inf", "", "%", "+1", "99999999999999999999"]
    {
        assert!(Profile::parse(&format!("11n,loss={text}")).is_err(), "{text}");
        assert!(Profile::parse(&format!("11n,queue={text}")).is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn any_text_gives_a_profile_whose_name_gives_it_again_or_an_error(text in any::<String>()) {
        match Profile::parse(&text) {
            Ok(parsed) => prop_assert_eq!(Profile::parse(&parsed.name), Ok(parsed)),
            Err(error) => prop_assert!(!error.to_string().contains(char::is_control), "{error:?}"),
        }
    }

    #[test]
    fn texts_that_are_nearly_right_do_too(
        name in prop::sample::select(Profile::names()),
        changes in prop::collection::vec(
            (prop::sample::select(vec!["rate", "ampdu", "loss", "retries", "cwmin", "cwmax", "queue", "ap-queue", "delay",
                "jitter", "rat"]), "[0-9]{1,7}(\\.[0-9]{1,5})?", prop::sample::select(vec!["", "%", "kbit", "Mbit/s", "ms", "s"])),
            0..4)
    ) {
        let changes: String = changes.iter().map(|(key, number, unit)| format!(",{key}={number}{unit}")).collect();
        let text = format!("{name}{changes}");
        match Profile::parse(&text) {
            Ok(parsed) => {
                prop_assert_eq!(Profile::parse(&parsed.name), Ok(parsed.clone()));
                prop_assert!(parsed.name.starts_with(name));
            }
            Err(error) => prop_assert!(error.to_string().contains(name)),
        }
    }
}
