//! Clients that have to begin TLS first: each demand of the document on a server with FORCEDTLS.

use super::*;

/// One that has had these client flags, and answers inside TLS only.
fn demanding() -> Server {
    let mut session = Session::demanding_tls();
    assert_eq!(session.out_mut().take_all().len(), GREETING_BYTES);
    let mut server = Server { session, rx: RxBuf::new(), budget: Budget::new(1 << 30) };
    server.rx.extend(&(FLAG_C_FIXED_NEWSTYLE | FLAG_C_NO_ZEROES).to_be_bytes());
    assert_eq!(server.next(), Ok(Event::NeedMore));
    server
}

/// TLS can begin.
fn begin(server: &mut Server) {
    server.rx.extend(&option(OPT_STARTTLS, &[]));
    assert_eq!(server.next(), Ok(Event::StartTls));
    assert_eq!(server.replies()[0].kind, REP_ACK);
}

/// One inside TLS.
fn secured() -> Server {
    let mut server = demanding();
    begin(&mut server);
    server.session.secured();
    server
}

#[test]
fn nothing_is_answered_before_tls_but_its_beginning_and_the_end() {
    for number in (0..20).filter(|number| ![OPT_EXPORT_NAME, OPT_ABORT, OPT_STARTTLS].contains(number)) {
        for data in [&[][..], &go_data("disk", &[]), &[7; 5000]] {
            let mut server = demanding();
            let replies = server.option(number, data);
            assert_eq!((replies.len(), replies[0].kind), (1, REP_ERR_TLS_REQD), "option {number}");
            assert!(!String::from_utf8_lossy(&replies[0].data).contains("disk"));
            begin(&mut server);
        }
    }
    let mut server = demanding();
    server.rx.extend(&option(OPT_EXPORT_NAME, b"disk"));
    assert_eq!(server.next(), Err(SessionError::TlsDemanded));
    assert!(server.session.out().is_empty());
    let mut server = demanding();
    server.rx.extend(&option(OPT_ABORT, &[]));
    assert_eq!(server.next(), Ok(Event::Closed));
    assert_eq!(server.replies()[0].kind, REP_ACK);
}

#[test]
fn starttls_has_no_data() {
    let mut server = demanding();
    assert_eq!(server.option(OPT_STARTTLS, &[0])[0].kind, REP_ERR_INVALID);
    assert_eq!(server.option(OPT_GO, &go_data("disk", &[]))[0].kind, REP_ERR_TLS_REQD, "it has not begun");
}

#[test]
fn bytes_behind_starttls_end_the_session() {
    let go = option(OPT_GO, &go_data("disk", &[]));
    for behind in [&go[..], &[22, 3, 1][..], &[0][..]] {
        let mut server = demanding();
        server.rx.extend(&option(OPT_STARTTLS, &[]));
        server.rx.extend(behind);
        assert_eq!(server.next(), Err(SessionError::BehindStartTls));
        assert_eq!(server.next(), Ok(Event::Closed));
    }
    // Those that come a little later are not decoded either, until TLS says that they were inside it.
    let mut server = demanding();
    begin(&mut server);
    server.rx.extend(&go);
    assert_eq!(server.next(), Ok(Event::NeedMore));
    assert!(server.session.out().is_empty());
}

#[test]
fn inside_tls_options_are_answered_and_it_does_not_begin_again() {
    let mut server = secured();
    assert_eq!(server.option(OPT_STARTTLS, &[])[0].kind, REP_ERR_INVALID);
    let names = server.option(OPT_LIST, &[]);
    assert_eq!(names.iter().filter(|reply| reply.kind == REP_SERVER).count(), 4);
    server.rx.extend(&option(OPT_GO, &go_data("disk", &[])));
    assert_eq!(server.next(), Ok(Event::Opened { export: 0 }));
}

#[test]
fn a_server_without_tls_has_none() {
    let mut server = Server::with_flags(FLAG_C_FIXED_NEWSTYLE | FLAG_C_NO_ZEROES);
    server.session.secured();
    assert_eq!(server.option(OPT_STARTTLS, &[])[0].kind, REP_ERR_UNSUP);
}
