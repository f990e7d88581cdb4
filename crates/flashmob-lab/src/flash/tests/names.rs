//! Invalid input, and its error messages.

use super::*;
use crate::flash::RequestError;

#[test]
fn all_built_in_profiles_pass_their_check_and_are_found_by_name() {
    for profile in Profile::ALL {
        profile.check().unwrap();
        assert_eq!(Profile::named(&profile.name.to_uppercase()).unwrap(), profile);
    }
}

#[test]
fn unknown_names_list_those_there_are_and_suggest_one() {
    let message = Profile::named("nexus-emmc").unwrap_err().to_string();
    assert_eq!(
        message,
        "there is no modelled device 'nexus-emmc'; there are nexus7-emmc, emmc, ufs, sdcard, hdd, nvme; \
         did you mean 'nexus7-emmc'?"
    );
    assert!(Profile::named("nexus7").unwrap_err().to_string().ends_with("did you mean 'nexus7-emmc'?"));
    assert!(Profile::named("floppy-drive").unwrap_err().to_string().ends_with("hdd, nvme"));
    let message = "mq_dedline".parse::<Scheduler>().unwrap_err().to_string();
    assert_eq!(
        message,
        "there is no scheduler 'mq_dedline' in the model; it knows none, mq-deadline, bfq; did you mean 'mq-deadline'?"
    );
}

#[test]
fn schedulers_are_found_by_their_names_and_by_those_of_the_papers() {
    for scheduler in Scheduler::ALL {
        assert_eq!(scheduler.name().parse(), Ok(scheduler));
    }
    for (name, scheduler) in [("NOOP", Scheduler::None), ("DEADLINE", Scheduler::MqDeadline)] {
        assert_eq!(name.parse(), Ok(scheduler));
    }
    for name in ["cfq", "CFQ"] {
        let error = name.parse::<Scheduler>().unwrap_err();
        assert_eq!(error.meant, None, "bfq is another algorithm");
        assert_eq!(
            error.to_string(),
            format!(
                "there is no scheduler '{name}' in the model; it knows none, mq-deadline, bfq; \
                 kernels since 5.0 have no CFQ either, and BFQ is another algorithm"
            )
        );
    }
}

#[test]
fn what_does_not_fit_the_device_is_refused_and_leaves_no_trace() {
    let mut model = FlashModel::new(&plain(1), Scheduler::None, 10_000, 0).unwrap();
    let now = Time::default();
    assert!(model.submit(now, read(0, 0, 9_999, 1)).is_ok());
    let beyond = model.submit(now, read(1, 0, 9_999, 2));
    assert!(matches!(beyond, Err(RequestError::BeyondEnd(_, _, 10_000))));
    assert!(matches!(model.submit(now, read(1, 0, u64::MAX, 2)), Err(RequestError::BeyondEnd { .. })));
    assert_eq!(model.submit(now, read(1, 0, 0, 0)), Err(RequestError::Empty));
    let flush = Request { op: Op::Flush, ..read(1, 0, 0, 1) };
    assert_eq!(model.submit(now, flush), Err(RequestError::FlushWithPlace));
    assert_eq!((model.waiting(), model.in_service()), (0, 1));
    assert_eq!(finish(&mut model).len(), 1);

    let mut large = FlashModel::new(&plain(1), Scheduler::None, GIB, 0).unwrap();
    assert!(large.submit(now, read(0, 0, 0, 128 * MIB)).is_ok());
    assert!(matches!(large.submit(now, read(0, 0, 0, 128 * MIB + 1)), Err(RequestError::TooLong { .. })));
}

#[test]
fn too_many_waiting_requests_are_refused_until_one_has_left() {
    let mut model = FlashModel::new(&plain(1), Scheduler::MqDeadline, GIB, 0).unwrap();
    for id in 0..=crate::flash::model::WAITING_MAX as u64 {
        model.submit(Time::default(), read(id, 0, id * 4096, 1)).unwrap();
    }
    assert!(matches!(model.submit(Time::default(), read(0, 0, 0, 1)), Err(RequestError::TooMany { .. })));
    let next = model.next_event().unwrap();
    assert!(model.submit(next, read(0, 0, 0, 1)).is_ok());
}

#[test]
fn sizes_and_numbers_out_of_range_are_refused() {
    assert!(FlashModel::new(&plain(1), Scheduler::None, 0, 0).is_err());
    assert!(FlashModel::new(&plain(1), Scheduler::None, (1 << 63) + 1, 0).is_err());
    assert!(FlashModel::new(&plain(1), Scheduler::None, 1 << 63, 0).is_ok());
    assert!(plain(1024).check().is_ok());
    assert!(plain(0).check().is_err() && plain(1025).check().is_err());
    assert!(Profile { jitter_percent: 100, ..plain(1) }.check().is_err());
    let message = Profile { backward_percent: 1001, ..plain(1) }.check().unwrap_err().to_string();
    assert_eq!(message, "the profile 'plain' cannot be: backward_percent must be at most 1000");
}
